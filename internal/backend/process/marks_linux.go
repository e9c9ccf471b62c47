package process

import (
	"bytes"
	"crypto/rand"
	"os"
	"os/exec"
	"strconv"
)

// marks tell whose an orphan is, where it cannot be in a cgroup of its own.
//
// The kernel gives a process whose parents have died to the nearest ancestor that
// asked for it (PR_SET_CHILD_SUBREAPER), and does not say whose it was. So every
// command has a variable in its environment, which all that it starts inherits,
// whatever it does to its session, its group and its parents. One that is started
// without that variable is not found.
type marks struct {
	prefix string // at random, so that a sidecar below another has other marks
	next   int
}

const markName = "SIDECALL_COMMAND="

func newMarks() *marks { return &marks{prefix: rand.Text() + "-"} }

// set marks a command that is started next.
func (m *marks) set(cmd *exec.Cmd) (mark string) {
	m.next++
	mark = m.prefix + strconv.Itoa(m.next)
	cmd.Env = append(cmd.Env, markName+mark)
	return mark
}

// marked reports whether a process has a mark.
func marked(pid int, mark string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+markName+mark+"\x00"))
}
