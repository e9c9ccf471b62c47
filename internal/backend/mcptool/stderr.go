package mcptool

import (
	"log/slog"
	"os"
	"time"

	"github.com/sidecall/sidecall/internal/backend/lines"
)

const (
	// stderrLine is how much of a line of standard error is logged.
	stderrLine = 1 << 10
	// stderrBurst lines are logged per stderrWindow; the others are counted.
	stderrBurst  = 50
	stderrWindow = 10 * time.Second
)

// logLines logs what a server writes to its standard error, within bounds,
// until the file ends, and closes it.
func logLines(f *os.File, log *slog.Logger) {
	defer func() { _ = f.Close() }() // only read from
	from := lines.New(f, stderrLine, 4<<10)
	var (
		window  time.Time
		logged  int
		dropped int
	)
	for {
		ln, err := from.Next()
		if dropped > 0 && (err != nil || time.Since(window) > stderrWindow) {
			log.Info("the MCP server wrote more to its standard error", "lines_dropped", dropped)
			dropped = 0
		}
		if err != nil {
			return
		}
		if time.Since(window) > stderrWindow {
			window, logged = time.Now(), 0
		}
		if logged == stderrBurst {
			dropped++
			continue
		}
		logged++
		log.Info("the MCP server wrote to its standard error", "line", string(ln.Text[:min(len(ln.Text), stderrLine)]))
	}
}
