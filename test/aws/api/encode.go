package api

import (
	"bytes"
	"encoding/xml"
	"fmt"
)

// encode writes the answer of an action: <ActionResponse> around <ActionResult> and the
// id of the request.
func encode(namespace, action, id string, result any) ([]byte, error) {
	var b bytes.Buffer
	e := xml.NewEncoder(&b)
	root := xml.StartElement{Name: xml.Name{Local: action + "Response"}, Attr: []xml.Attr{{Name: xml.Name{Local: "xmlns"}, Value: namespace}}}
	metadata := struct {
		RequestID string `xml:"RequestId"`
	}{id}
	e.EncodeToken(root)
	if err := e.EncodeElement(result, xml.StartElement{Name: xml.Name{Local: action + "Result"}}); err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	e.EncodeElement(metadata, xml.StartElement{Name: xml.Name{Local: "ResponseMetadata"}})
	e.EncodeToken(root.End())
	// The last tag is written by Close.
	err := e.Close()
	return b.Bytes(), err
}

func encodeError(namespace, id string, e *Error) []byte {
	type detail struct{ Type, Code, Message string }
	answer := struct {
		XMLName   xml.Name `xml:"ErrorResponse"`
		Namespace string   `xml:"xmlns,attr"`
		Error     detail
		RequestID string `xml:"RequestId"`
	}{Namespace: namespace, Error: detail{"Sender", e.Code, e.Message}, RequestID: id}
	if e.Status >= 500 {
		answer.Error.Type = "Receiver"
	}
	text, err := xml.Marshal(answer)
	if err != nil {
		panic(err) // strings only
	}
	return text
}

// members is a list in an answer.
type members[T any] struct {
	Member []T `xml:"member"`
}

func membersOf[T, U any](list []T, convert func(T) U) members[U] {
	var m members[U]
	for _, item := range list {
		m.Member = append(m.Member, convert(item))
	}
	return m
}

type keyValue struct{ Key, Value string }
