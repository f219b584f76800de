//go:build !linux

package forward

import "os/exec"

// startWithParent starts a command and closes exited when it has exited.
func startWithParent(cmd *exec.Cmd, exited chan struct{}) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		cmd.Wait()
		close(exited)
	}()
	return nil
}
