package redisserver

import (
	"slices"
	"strings"
	"testing"
)

func TestSettingsBecomeLines(t *testing.T) {
	t.Parallel()
	got := settings([]string{"--appendonly", "yes", "--client-output-buffer-limit", "normal", "0", "--save", ""})
	want := []string{`appendonly "yes"`, `client-output-buffer-limit "normal" "0"`, `save ""`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFieldsOfInfo(t *testing.T) {
	t.Parallel()
	text := "# Server\r\nredis_version:7.0.15\r\nrole:master\r\n"
	for field, want := range map[string]string{"role": "master", "redis_version": "7.0.15", "version": "", "ole": ""} {
		if got := fieldOf(text, field); got != want {
			t.Errorf("%s: got %q, want %q", field, got, want)
		}
	}
}

func TestNodesAndTheirSlots(t *testing.T) {
	t.Parallel()
	views := parseNodes(strings.Join([]string{
		"aa 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-100 200 [300->-bb]",
		"bb 127.0.0.1:3@4 slave,fail aa 0 0 1 disconnected",
		"",
	}, "\n"))
	if len(views) != 2 {
		t.Fatalf("got %+v", views)
	}
	for slot, want := range map[int]bool{0: true, 100: true, 101: false, 200: true, 300: false} {
		if got := views[0].serves(slot); got != want {
			t.Errorf("slot %d: %t", slot, got)
		}
	}
	if !views[0].linked || views[1].linked || !views[1].has("fail") || views[1].master != "aa" {
		t.Errorf("got %+v", views)
	}
}
