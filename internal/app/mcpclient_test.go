package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTheHeaderOfAnMCPServerIsBounded(t *testing.T) {
	size := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Mcp-Session-Id", strings.Repeat("x", size))
	}))
	defer server.Close()
	client := mcpClient(true)
	defer client.CloseIdleConnections()
	for bytes, taken := range map[int]bool{1 << 10: true, 1 << 20: false} {
		size = bytes
		resp, err := client.Get(server.URL)
		if err == nil {
			err = resp.Body.Close()
		}
		if (err == nil) != taken {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
}
