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

// bounded is a client that follows no redirects, keeps no connections, and reads no more of an answer than an
// honest one can have.
func bounded(transport *http.Transport) *http.Client {
	transport.DisableKeepAlives = true
	transport.MaxResponseHeaderBytes = longestHead
	return &http.Client{
		Transport:     boundedTransport{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// boundedTransport gives answers of which reading fails beyond longestBody.
type boundedTransport struct{ http.RoundTripper }

func (b boundedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = &boundedBody{response.Body, longestBody}
	}
	return response, err
}

var errTooLong = fmt.Errorf("the answer is longer than %d bytes", longestBody)

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.left -= n; b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}
