package analysis

import (
	"fmt"
	"io"
	"net/http"
)

const (
	// longestBody of an answer is read, in bytes once it is unpacked: the values of some
	// 5,000 series.
	longestBody = 1 << 20
	// longestHead of an answer is read, in bytes.
	longestHead = 64 << 10
)

// client follows no redirects, keeps no connections, and reads no more of an answer than an
// honest one can have.
func client(transport *http.Transport) *http.Client {
	transport.DisableKeepAlives = true
	transport.MaxResponseHeaderBytes = longestHead
	return &http.Client{
		Transport:     bounded{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded gives answers of which reading fails beyond longestBody.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = &boundedBody{response.Body, longestBody}
	}
	return response, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the answer is longer than %d bytes", longestBody)
	}
	return n, err
}
