package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"
)

type protoField = descriptorpb.FieldDescriptorProto

func protoScalar(n int32, name string, typ descriptorpb.FieldDescriptorProto_Type) *protoField {
	return &protoField{Number: &n, Name: &name, Type: typ.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
}

func protoText(n int32, name string) *protoField {
	return protoScalar(n, name, descriptorpb.FieldDescriptorProto_TYPE_STRING)
}

func protoMessage(n int32, name, of string) *protoField {
	f := protoScalar(n, name, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE)
	f.TypeName = proto.String(of)
	return f
}

func repeated(f *protoField) *protoField {
	f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	return f
}

func describe(name string, fields ...*protoField) *descriptorpb.DescriptorProto {
	return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
}

// described are the messages of the envelope for Go's own protobuf: with fields that we do not read.
func described(t *testing.T) protoreflect.MessageDescriptors {
	t.Helper()
	request := describe("Request", protoMessage(1, "node", ".e.Node"), protoText(2, "type_url"), repeated(protoText(3, "subscribe")),
		repeated(protoMessage(5, "versions", ".e.Request.VersionsEntry")), protoText(6, "nonce"), protoMessage(7, "error", ".e.Status"))
	entry := describe("VersionsEntry", protoText(1, "key"), protoText(2, "value"))
	entry.Options = &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}
	request.NestedType = append(request.NestedType, entry)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("e.proto"), Package: proto.String("e"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			describe("Node", protoText(1, "id"), protoText(2, "cluster")),
			describe("Status", protoScalar(1, "code", descriptorpb.FieldDescriptorProto_TYPE_INT32), protoText(2, "message")),
			describe("Any", protoText(1, "type_url"), protoScalar(2, "value", descriptorpb.FieldDescriptorProto_TYPE_BYTES)),
			describe("Delivery", protoText(1, "version"), protoMessage(2, "resource", ".e.Any"), protoText(3, "name"), repeated(protoText(4, "aliases"))),
			describe("Response", protoText(1, "position"), repeated(protoMessage(2, "resources", ".e.Delivery")), protoText(4, "type_url"),
				protoText(5, "nonce"), repeated(protoText(6, "removed"))),
			request,
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages()
}

// TestEnvelopeAsProtobuf: Go's own protobuf reads what we write, writes the same bytes, and what it
// writes beside that we skip.
func TestEnvelopeAsProtobuf(t *testing.T) {
	messages := described(t)
	again := func(t *rapid.T, name, beside protoreflect.Name, b []byte) []byte {
		m := dynamicpb.NewMessage(messages.ByName(name))
		if err := proto.Unmarshal(b, m); err != nil {
			t.Fatal(err)
		}
		if len(m.GetUnknown()) > 0 {
			t.Fatalf("%x has fields that are not known: %x", b, m.GetUnknown())
		}
		same, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b, same); diff != "" && len(b)+len(same) > 0 {
			t.Fatal(diff)
		}
		if beside != "" {
			m.Mutable(m.Descriptor().Fields().ByName(beside)).List().Append(protoreflect.ValueOfString("more"))
		}
		more, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return more
	}
	rapid.Check(t, func(t *rapid.T) {
		asked, said := request(t), response(t)
		b, err := asked.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := DecodeRequest(again(t, "Request", "subscribe", b)); err != nil || !cmp.Equal(asked, back) {
			t.Fatalf("%v %s", err, cmp.Diff(asked, back))
		}
		if b, err = said.Encode(); err != nil {
			t.Fatal(err)
		}
		if back, err := DecodeResponse(again(t, "Response", "", b)); err != nil || !cmp.Equal(said, back) {
			t.Fatalf("%v %s", err, cmp.Diff(said, back))
		}
	})
}
