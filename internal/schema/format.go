package schema

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"net/netip"
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // iana-tz must mean the same on a machine without a zone database

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// format is what is known about one value of the format keyword.
type format struct {
	// check says whether a string is of the format. nil: the library's own
	// check applies, or every value fits.
	check func(string) bool
	// shape describes the form in a few words; may be empty.
	shape string
	// example is valid.
	example string
}

const zoneShape = "a name of the IANA time zone database"

// formatOf lists the formats of the drafts, those of OpenAPI and those that
// pydantic and zod write. A format that is not here is an annotation, as JSON
// Schema has it.
var formatOf = map[string]format{
	"date":                  {nil, "YYYY-MM-DD", "2026-11-21"},
	"date-time":             {nil, "YYYY-MM-DDThh:mm:ssZ", "2026-11-21T09:30:00Z"},
	"time":                  {nil, "hh:mm:ssZ", "09:30:00Z"},
	"duration":              {nil, "ISO 8601, P..DT..H..M..S", "PT1H30M"},
	"period":                {nil, "start/end, ISO 8601", "2026-11-21T00:00:00Z/P1D"},
	"email":                 {nil, "name@host", "user@example.com"},
	"idn-email":             {isIDNEmail, "name@host", "user@example.com"},
	"hostname":              {nil, "", "example.com"},
	"idn-hostname":          {isIDNHostname, "", "example.com"},
	"ipv4":                  {nil, "four decimals", "192.0.2.1"},
	"ipv6":                  {nil, "", "2001:db8::1"},
	"ip":                    {isIP, "IPv4 or IPv6 address", "192.0.2.1"},
	"ipvanyaddress":         {isIP, "IPv4 or IPv6 address", "192.0.2.1"},
	"cidr":                  {isCIDR, "address/bits", "192.0.2.0/24"},
	"cidrv4":                {isCIDRv4, "address/bits", "192.0.2.0/24"},
	"cidrv6":                {isCIDRv6, "address/bits", "2001:db8::/32"},
	"mac":                   {macAddress.MatchString, "six hex pairs", "00:00:5e:00:53:01"},
	"uri":                   {nil, "scheme://host/path", "https://example.com/path"},
	"url":                   {isURL, "scheme://host/path", "https://example.com/path"},
	"iri":                   {nil, "scheme://host/path", "https://example.com/path"},
	"uri-reference":         {nil, "", "/docs/page"},
	"iri-reference":         {nil, "", "/docs/page"},
	"uri-template":          {nil, "", "https://example.com/items/{id}"},
	"uuid":                  {nil, "8-4-4-4-12 hex digits", "123e4567-e89b-42d3-a456-426614174000"},
	"guid":                  {uuid.MatchString, "8-4-4-4-12 hex digits", "123e4567-e89b-42d3-a456-426614174000"},
	"uuid4":                 {uuid4.MatchString, "8-4-4-4-12 hex digits, version 4", "123e4567-e89b-42d3-a456-426614174000"},
	"regex":                 {nil, "a regular expression", "^[a-z]+$"},
	"json-pointer":          {nil, "", "/items/0"},
	"relative-json-pointer": {nil, "", "1/name"},
	"semver":                {nil, "MAJOR.MINOR.PATCH", "1.2.3"},
	"iana-tz":               {isTimeZone, zoneShape, "Europe/Berlin"},
	"timezone":              {isTimeZone, zoneShape, "Europe/Berlin"},
	"time-zone":             {isTimeZone, zoneShape, "Europe/Berlin"},
	"byte":                  {isBase64, "base64", "aGVsbG8="},
	"base64":                {isBase64, "base64", "aGVsbG8="},
	"base64url":             {isBase64URL, "base64url", "aGVsbG8"},
	"json-string":           {isJSON, "JSON text", `{"key": "value"}`},
	"json":                  {isJSON, "JSON text", `{"key": "value"}`},
	"color":                 {color.MatchString, "#rrggbb", "#1e90ff"},
	"e164":                  {phone.MatchString, "+ and up to 15 digits", "+4915112345678"},
	"decimal":               {isNumber, "a decimal number as a string", "12.50"},
	"password":              {nil, "", ""},
	"binary":                {nil, "", ""},
}

var (
	macAddress = regexp.MustCompile(`^(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$`)
	uuid       = regexp.MustCompile(`^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)
	uuid4      = regexp.MustCompile(`^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-4[0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}$`)
	color      = regexp.MustCompile(`^#(?:[0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$`)
	phone      = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)
	zoneName   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*$`)
)

var errFormat = errors.New("not of this format")

// extraFormats are the checks that the library lacks, in its shape.
var extraFormats = buildFormats()

func buildFormats() []*jsonschema.Format {
	var out []*jsonschema.Format
	for name, f := range formatOf {
		if f.check == nil {
			continue
		}
		out = append(out, &jsonschema.Format{Name: name, Validate: func(v any) error {
			if s, ok := v.(string); ok && !f.check(s) {
				return errFormat
			}
			return nil
		}})
	}
	return append(out,
		integerFormat("int32", math.MinInt32, math.MaxInt32),
		integerFormat("int64", math.MinInt64, math.MaxInt64),
		integerFormat("uint32", 0, math.MaxUint32),
		integerFormat("uint64", 0, math.MaxUint64),
	)
}

// integerFormat is one of OpenAPI's formats of numbers.
func integerFormat(name string, low int64, high uint64) *jsonschema.Format {
	return &jsonschema.Format{Name: name, Validate: func(v any) error {
		n, ok := v.(json.Number)
		if !ok {
			return nil
		}
		r := rational(n)
		if r == nil || !r.IsInt() || r.Num().Cmp(big.NewInt(low)) < 0 || r.Num().Cmp(new(big.Int).SetUint64(high)) > 0 {
			return errFormat
		}
		return nil
	}}
}

func isIP(s string) bool {
	addr, err := netip.ParseAddr(s)
	return err == nil && addr.Zone() == ""
}

func isCIDR(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil
}

func isCIDRv4(s string) bool {
	prefix, err := netip.ParsePrefix(s)
	return err == nil && prefix.Addr().Is4()
}

func isCIDRv6(s string) bool { return isCIDR(s) && !isCIDRv4(s) }

func isURL(s string) bool {
	scheme, rest, ok := strings.Cut(s, "://")
	return ok && scheme != "" && rest != "" && !strings.ContainsAny(s, " \t\n\"<>")
}

func isIDNEmail(s string) bool {
	at := strings.LastIndexByte(s, '@')
	return at > 0 && !strings.ContainsAny(s, " \t\n") && isIDNHostname(s[at+1:])
}

func isIDNHostname(s string) bool {
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label == "" || len(label) > 63 || strings.ContainsAny(label, " \t\n/@:_") || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return len(s) <= 253
}

func isTimeZone(s string) bool {
	if s == "Local" || len(s) > 64 || !zoneName.MatchString(s) {
		return false
	}
	_, err := time.LoadLocation(s)
	return err == nil
}

func isBase64(s string) bool {
	_, err := base64.StdEncoding.Strict().DecodeString(s)
	return err == nil && !strings.ContainsAny(s, "\r\n") // which the decoder passes over
}

func isBase64URL(s string) bool {
	_, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(s, "="))
	return err == nil && !strings.ContainsAny(s, "\r\n")
}

func isJSON(s string) bool { return json.Valid([]byte(s)) }
