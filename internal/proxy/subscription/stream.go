package subscription

import (
	"context"
	"time"

	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/delta"
	"github.com/mumoshu/ingress-daemonset-controller/internal/routing/wire"
)

// earliest bounds how long before the end of a stream's credentials the next one is opened: kubelet has
// put another token in the place of the old one by then.
const earliest = time.Minute

// opened is a stream that a controller has let in, and that it was not asked anything on.
type opened struct {
	*delta.Client
	close func()
	// over is closed by close.
	over <-chan struct{}
}

// stream opens a stream, and the next one before its credentials end, until one ends otherwise, and gives
// why. It says when the first transaction has come: a controller that has nothing to tell yet is none.
func (s *Subscription) stream(ctx context.Context, heard func()) error {
	current, err := s.open(ctx)
	for err == nil {
		current, err = s.follow(ctx, current, heard)
	}
	return err
}

func (s *Subscription) open(ctx context.Context) (*opened, error) {
	connection, err := s.options.Connect()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	end := func() {
		cancel()
		connection.Close()
	}
	client, err := delta.Open(ctx, connection)
	if err != nil {
		end()
		return nil, err
	}
	if set := client.IngressDaemonSet; set != s.IngressDaemonSet() && set != "" {
		s.set.Store(&set)
		s.saveSet(set)
	}
	return &opened{client, end, ctx.Done()}, nil
}

// follow takes what comes on a stream until it ends. It gives the next one where that was opened before.
// One at a time tells: what the next one is asked for is what the one before it has left to tell.
func (s *Subscription) follow(ctx context.Context, current *opened, heard func()) (next *opened, err error) {
	defer current.close()
	following, end := context.WithCancel(ctx)
	opening := make(chan *opened, 1)
	go func() { opening <- s.openNext(ctx, following, current) }()
	err = s.listen(current, heard)
	end()
	if next = <-opening; next != nil {
		return next, nil
	}
	return nil, err
}

// openNext opens the next stream before the credentials of this one end, and then ends this one: nil where
// that ended first, or where no next can be opened.
func (s *Subscription) openNext(ctx, following context.Context, current *opened) *opened {
	if current.Lifetime == 0 {
		return nil
	}
	select {
	case <-time.After(current.Lifetime - min(current.Lifetime/2, earliest)):
	case <-following.Done():
		return nil
	}
	next, err := s.open(ctx)
	if err != nil {
		s.options.Log.Warn("the next stream cannot be opened, before this one ends", "error", err)
		return nil
	}
	current.close()
	return next
}

// listen takes what comes on a stream until it ends, and gives why. The last answer is given again when something else
// is unavailable.
func (s *Subscription) listen(client *opened, heard func()) error {
	if err := client.Send(s.ask()); err != nil {
		return err
	}
	told, failed := client.receive()
	for nonce := ""; ; {
		select {
		case r := <-told:
			answer := s.take(r)
			heard()
			s.sayRefused(answer)
			s.save()
			if nonce = r.Nonce; r.TypeURL == wire.TypeURL {
				answer = s.answer(nonce)
			}
			if err := client.Send(answer); err != nil {
				return err
			}
		case <-s.unsaid:
			if nonce == "" {
				continue
			}
			if err := client.Send(s.answer(nonce)); err != nil {
				return err
			}
		case err := <-failed:
			return err
		}
	}
}

// receive hands over what comes, one at a time, until the stream ends.
func (o *opened) receive() (told <-chan wire.Response, failed <-chan error) {
	responses, errs := make(chan wire.Response), make(chan error, 1)
	go func() {
		for {
			r, err := o.Receive()
			if err != nil {
				errs <- err
				return
			}
			select {
			case responses <- r:
			case <-o.over:
				return
			}
		}
	}()
	return responses, errs
}

func (s *Subscription) ask() wire.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holdings.Ask(s.options.Node)
}

// sayRefused says what is refused, which the controller is told as well.
func (s *Subscription) sayRefused(answer wire.Request) {
	refused := ""
	if answer.Error != nil {
		refused = answer.Error.Message
	}
	if refused != "" && refused != s.saidRefused {
		s.options.Log.Warn("refused some of what the controller told, the rest is applied", "position", answer.Nonce, "refused", refused)
	}
	s.saidRefused = refused
}
