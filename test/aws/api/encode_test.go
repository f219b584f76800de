package api

import (
	"encoding/xml"
	"testing"
)

// TestEncode: an answer is a whole document. AWS's SDK for Go stops reading where it has what it wants, other
// clients do not.
func TestEncode(t *testing.T) {
	text, err := encode(namespace, "DescribeTags", "1", struct{ Name string }{"front"})
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Name string `xml:"DescribeTagsResult>Name"`
		ID   string `xml:"ResponseMetadata>RequestId"`
	}
	if err := xml.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if answer.Name != "front" || answer.ID != "1" {
		t.Errorf("%s", text)
	}
}
