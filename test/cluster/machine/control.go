package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// ControlSocket is the name of the Unix socket in the machine's directory on
// which its first process serves
//
//	GET  /services              the status of each service
//	POST /services/NAME/start
//	POST /services/NAME/stop
const ControlSocket = "control.sock"

// Services returns the status of each service.
func (m *Machine) Services(ctx context.Context) ([]ServiceStatus, error) {
	var services []ServiceStatus
	body, err := m.control(ctx, http.MethodGet, "/services")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &services); err != nil {
		return nil, fmt.Errorf("services of %s: %w", filepath.Base(m.dir), err)
	}
	return services, nil
}

// StartService starts a service that was stopped.
func (m *Machine) StartService(ctx context.Context, name string) error {
	_, err := m.control(ctx, http.MethodPost, "/services/"+name+"/start")
	return err
}

// StopService kills a service and returns when its process is gone. What the
// process has started goes on.
func (m *Machine) StopService(ctx context.Context, name string) error {
	_, err := m.control(ctx, http.MethodPost, "/services/"+name+"/stop")
	return err
}

func (m *Machine) control(ctx context.Context, method, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://machine"+path, nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DialContext: m.dialControl, DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("%s %s on %s: %w", method, path, filepath.Base(m.dir), err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s on %s: %w", method, path, filepath.Base(m.dir), err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s on %s: %s", method, path, filepath.Base(m.dir), strings.TrimSpace(string(body)))
	}
	return body, nil
}

func (m *Machine) dialControl(ctx context.Context, _, _ string) (net.Conn, error) {
	folder, err := os.Open(m.dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", shortPath(folder, ControlSocket))
}
