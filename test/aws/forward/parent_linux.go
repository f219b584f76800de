package forward

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startWithParent starts a command that is killed when this process ends, however it
// ends, and closes exited when the command has exited. The kernel watches the thread
// that started it, so that thread waits for it.
func startWithParent(cmd *exec.Cmd, exited chan struct{}) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
			close(exited)
		}
	}()
	return <-started
}
