package telemetry

import (
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// checkVariables leaves out of the exporters' variables what cannot be read, and names it:
// they would quote it themselves, and headers and endpoints hold keys.
func checkVariables(log *slog.Logger) {
	for _, signal := range []string{"", "TRACES_", "METRICS_", "LOGS_"} {
		checkHeaders("OTEL_EXPORTER_OTLP_"+signal+"HEADERS", log)
		endpoint := "OTEL_EXPORTER_OTLP_" + signal + "ENDPOINT"
		if _, err := url.Parse(os.Getenv(endpoint)); err != nil {
			leave(endpoint, "", "no URL", log)
		}
	}
}

// checkHeaders keeps those of a list in which each is key=value, the value escaped as in a URL.
func checkHeaders(name string, log *slog.Logger) {
	var kept, wrong []string
	for i, header := range strings.Split(os.Getenv(name), ",") {
		key, value, both := strings.Cut(header, "=")
		_, err := url.PathUnescape(value)
		switch {
		case both && err == nil && httpguts.ValidHeaderFieldName(strings.TrimSpace(key)):
			kept = append(kept, header)
		case strings.TrimSpace(header) != "":
			wrong = append(wrong, strconv.Itoa(i+1))
		}
	}
	if len(wrong) > 0 {
		leave(name, strings.Join(kept, ","), "not key=value with an escaped value: header "+strings.Join(wrong, ", "), log)
	}
}

// leave says what is left out of a variable.
func leave(name, used, why string, log *slog.Logger) {
	if err := os.Setenv(name, used); err != nil {
		why += ": " + err.Error()
	}
	log.Warn("telemetry", "error", name+": "+why+", which is left out")
}
