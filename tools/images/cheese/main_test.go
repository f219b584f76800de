package main

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestServe: each cheese has a page with its own picture, which is SVG.
func TestServe(t *testing.T) {
	for _, cheese := range []string{"cheddar", "stilton", "wensleydale"} {
		page, err := serve(cheese)
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		page.ServeHTTP(answer, httptest.NewRequest("GET", "/any/path", nil))
		_, picture, found := strings.Cut(answer.Body.String(), "<svg ")
		if answer.Code != 200 || answer.Header().Get("X-Cheese") != cheese || !found {
			t.Errorf("%s: %d %v\n%s", cheese, answer.Code, answer.Header(), answer.Body)
		}
		if !strings.Contains(picture, "A wedge of "+cheese) {
			t.Errorf("%s has the picture of another cheese", cheese)
		}
	}
	if _, err := serve("wensledale"); err == nil || !strings.Contains(err.Error(), `there is no picture of "wensledale"`) {
		t.Errorf("of a name that is misspelt it says %v", err)
	}
}

// TestPictures are well-formed.
func TestPictures(t *testing.T) {
	all, err := pictures.ReadDir(".")
	if err != nil || len(all) != 3 {
		t.Fatalf("there are %d pictures, %v", len(all), err)
	}
	for _, entry := range all {
		file, err := pictures.Open(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		for decoder := xml.NewDecoder(file); err == nil; {
			_, err = decoder.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", entry.Name(), err)
		}
	}
}
