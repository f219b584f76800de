package server

import (
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"
)

var quiet = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) {
	if address := os.Getenv(leaverAddress); address != "" {
		leaver(address)
		return
	}
	goleak.VerifyTestMain(m)
}
