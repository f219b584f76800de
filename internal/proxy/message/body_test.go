package message

import (
	"io"
	"strings"
	"testing"
)

// TestReady: what is left of the coding when all data was given is nothing to be given.
func TestReady(t *testing.T) {
	for _, test := range []struct {
		here  string
		first int
		want  bool
	}{
		{"5\r\nhello", 5, false}, {"5\r\nhello\r\n", 5, false}, {"5\r\nhello\r\n3\r\n", 5, false}, {"5\r\nhello\r\n3\r\nx", 5, true},
		{"5\r\nhello\r\n0\r\n\r\n", 5, true}, {"5\r\nhello", 2, true}, {"5\r\nhello\r", 5, false},
	} {
		in := Reader{Src: strings.NewReader(test.here)}
		var b Body
		b.Begin(&in, Chunked, 0)
		if _, err := io.ReadFull(&b, make([]byte, test.first)); err != nil {
			t.Fatal(err)
		}
		if got := b.Ready(); got != test.want {
			t.Errorf("%q is ready after %d bytes: %t", test.here, test.first, got)
		}
		in.Release()
	}
}

// TestChunksAtOnce: what has come is given at once, however small its chunks are and however their sizes are written, so
// that each is not written on by itself.
func TestChunksAtOnce(t *testing.T) {
	for _, size := range []string{"1", "01", "0000000000000001", "1;x=y"} {
		in := Reader{Src: strings.NewReader(strings.Repeat(size+"\r\nx\r\n", 100))}
		var b Body
		b.Begin(&in, Chunked, -1)
		if n, err := b.Read(make([]byte, 1000)); n != 100 || err != nil {
			t.Errorf("sizes of %q: %d bytes, %v", size, n, err)
		}
	}
}
