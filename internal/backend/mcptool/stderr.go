package mcptool

import (
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/sidecall/sidecall/internal/backend/lines"
	"github.com/sidecall/sidecall/internal/tool"
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
		log.Info("the MCP server wrote to its standard error", "line", begun(string(ln.Text), stderrLine))
	}
}

// begun is the beginning of a text, which ends with a whole word where it is cut off: half a secret would be known by
// nobody who takes secrets out.
func begun(text string, most int) string {
	cut := tool.ShortenBytes(text, most)
	if at := strings.LastIndexAny(cut, " \t\r\n"); at > 0 && len(text) > most {
		return cut[:at] + "…"
	}
	return cut
}
