package subscription

import (
	"context"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// stream opens a stream and takes what comes on it until it ends, and gives why. It says of itself when
// the first has come: a controller that has nothing to say yet is none.
func (s *Subscription) stream(ctx context.Context, heard func()) error {
	connection, err := s.options.Connect()
	if err != nil {
		return err
	}
	defer connection.Close()
	client, err := delta.Subscribe(ctx, connection, s.ask())
	if err != nil {
		return err
	}
	for {
		told, err := client.Receive()
		if err != nil {
			return err
		}
		answer := s.take(told)
		heard()
		s.sayRefused(answer)
		s.save()
		if err := client.Answer(answer); err != nil {
			return err
		}
	}
}

func (s *Subscription) ask() wire.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holdings.Ask(s.options.Node)
}

// sayRefused says what is refused, which the controller is told as well.
func (s *Subscription) sayRefused(answer wire.Request) {
	if answer.Error != nil {
		s.options.Log.Warn("refused some of what the controller told, the rest is applied", "position", answer.Nonce, "refused", answer.Error.Message)
	}
}
