//go:build e2e

package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// What a client of a front on stdio sends that is no message ends neither its session nor what is on its way: the
// payment after it is taken and answered.
func TestBadInputToAFrontOnStdio(t *testing.T) {
	t.Parallel()
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	payment := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"pay","arguments":{"cents":5}}}`, id)
	}
	bad := []string{
		"[" + payment(7) + "," + payment(8) + "]",
		strings.Replace(payment(7), "7", `{"a":1}`, 1),
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"` + strings.Repeat(" ", 100<<20) + `"}}`,
		"nonsense", "{\"method\":\"\xff\"}", `{"jsonrpc":"1.0","id":7,"method":"ping"}`,
		strings.Repeat(hello+"\n", 2000) + hello,
		strings.Replace(strings.Replace(hello, "2025-11-25", "9999-12-31", 1), `"id":1`, `"id":2`, 1),
	}
	open := openTill(t)
	command := open.onStdio(t)
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := io.WriteString(in, hello+"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
		for i, line := range bad {
			if err == nil {
				_, err = io.WriteString(in, line+"\n"+payment(100+i)+"\n")
			}
		}
		wrote <- err
	}()
	paid := map[int]bool{}
	for lines := bufio.NewScanner(out); len(paid) < len(bad) && lines.Scan(); {
		var answer struct {
			ID     int
			Result struct{ Content []struct{ Text string } }
		}
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			t.Errorf("%v: %s", err, lines.Bytes())
		}
		if len(answer.Result.Content) > 0 && strings.HasPrefix(answer.Result.Content[0].Text, `{"payment":`) {
			paid[answer.ID] = true
		}
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	if n := open.paid.Load(); len(paid) != len(bad) || n != int64(len(bad)) {
		t.Errorf("of %d payments %v are answered, and %d taken", len(bad), paid, n)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// That nobody reads the log of a front on stdio keeps it from no answer, and not from its end.
func TestAFrontOnStdioWhoseLogNobodyReads(t *testing.T) {
	t.Parallel()
	const calls = 800 // whose lines are more than a pipe takes
	open := openTill(t)
	command := open.onStdio(t)
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StderrPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := io.WriteString(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`+"\n")
		for i := 1; i <= calls && err == nil; i++ {
			_, err = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"pay","arguments":{"cents":5}}}`+"\n", i)
		}
		wrote <- err
	}()
	answered := 0
	for lines := bufio.NewScanner(out); answered <= calls && lines.Scan(); {
		answered += strings.Count(lines.Text(), `"id":`)
	}
	if err := <-wrote; err != nil || answered != calls+1 {
		t.Errorf("%d answers, %v", answered, err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
