package process

import (
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestUsersAreFoundByNameAndByNumber(t *testing.T) {
	own, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := os.Getuid(), os.Getgid()
	for text, want := range map[string]string{
		own.Username:                      "",
		strconv.Itoa(uid):                 "",
		own.Username + ":12345":           "12345",
		"54321:12345":                     "12345",
		strconv.Itoa(uid) + ":" + own.Gid: "",
	} {
		got, err := LookUpUser(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		wantGID := uint32(gid)
		if want != "" {
			wantGID = 12345
		}
		if got.GID != wantGID || !slices.Contains(got.Groups, wantGID) || strings.Contains(text, ":") && len(got.Groups) != 1 {
			t.Errorf("%s: %+v", text, got)
		}
		if own := want == ""; got.IsOwn() != own || own && got.Permitted() != nil {
			t.Errorf("%s: its own: %v, permitted: %v", text, got.IsOwn(), got.Permitted())
		}
	}
	for text, want := range map[string]string{
		"":                  "expected user or user:group",
		":1":                "expected user or user:group",
		"1:":                "expected user or user:group",
		"nobody-of-a-name":  "there is no user nobody-of-a-name",
		"54321":             "expected 54321:GROUP",
		"54321:none-of-all": "there is no group none-of-all",
		"4294967295:1":      "there is no user",
		"-1:1":              "there is no user",
	} {
		if _, err := LookUpUser(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Who may change the user runs programs as another one, with nothing of its own
// groups left; who may not is told before anything is run.
func TestAProgramRunsAsAnotherUser(t *testing.T) {
	other := &User{UID: 54321, GID: 12345, Groups: []uint32{12345, 23456}}
	if os.Geteuid() != 0 {
		if err := other.Permitted(); err == nil || !strings.Contains(err.Error(), "needs root") {
			t.Errorf("permitted: %v", err)
		}
		return
	}
	if err := other.Permitted(); err != nil {
		t.Error(err)
	}
	cmd, err := Spec{Argv: []string{"sh", "-c", "id -u; id -g; id -G"}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, User: other}.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.Output()
	if err != nil || string(said) != "54321\n12345\n12345 23456\n" {
		t.Errorf("it runs as %q, %v", said, err)
	}
	// The same question of one who is nobody.
	asks := exec.Command("/proc/self/exe")
	asks.Env = []string{"SIDECALL_TEST_PERMITTED=1"}
	asks.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	said, err = asks.Output()
	if want := "another user needs root or the capabilities CAP_SETUID, CAP_SETGID and CAP_KILL; missing: CAP_SETUID, CAP_SETGID, CAP_KILL"; err != nil || string(said) != want {
		t.Errorf("nobody is told %q, %v", said, err)
	}
}

// A group whose number no program can have must not leave it with the sidecar's own.
func TestAnAccountWhoseGroupIsNoNumber(t *testing.T) {
	account, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	account.Gid = "4294967295" // which means "unchanged" to the kernel
	found := &User{}
	if err := found.join(account); err == nil {
		t.Errorf("the program gets the groups %d", found.Groups)
	}
}
