package schema

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// maxNumberLen bounds the text of one number, in bytes. A double needs 25; the
// rest is for integers that are kept exact.
const maxNumberLen = 400

// numberFault is why no double can hold a number: RFC 8785 could not write it,
// and exact arithmetic on 1e999999 would cost megabytes.
type numberFault struct{ what, advice string }

func (f *numberFault) Error() string { return f.what }

var (
	errLarge = &numberFault{"out of range: expected one between -1.8e308 and 1.8e308", "Send a number that is closer to zero"}
	errSmall = &numberFault{"too close to zero: expected 0, or one with an exponent of at least -400", "Send 0"}
	errLong  = &numberFault{"too long: expected one of at most 400 characters", "Send fewer digits"}
)

// checkNumber refuses numbers that are out of bounds. text is a JSON number.
func checkNumber(text string) error {
	if len(text) <= 15 && !strings.ContainsAny(text, "eE") {
		return nil
	}
	if len(text) > maxNumberLen {
		return errLong
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		switch exp, err := strconv.Atoi(text[i+1:]); {
		case exp < -400:
			return errSmall
		case err != nil, exp > 400:
			return errLarge
		}
	}
	if _, err := strconv.ParseFloat(text, 64); err != nil {
		return errLarge
	}
	return nil
}

// appendNumber appends the canonical text of a JSON number: that of RFC 8785
// (ECMAScript's) where a double says the same, else, for an integer that a
// double would round, all its digits. So equal numbers have equal texts, and
// different integers different ones.
func appendNumber(dst []byte, text string) ([]byte, error) {
	if shortInteger(text) {
		return append(dst, text...), nil
	}
	if err := checkNumber(text); err != nil {
		return dst, err
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return dst, err
	}
	if math.Abs(f) >= 1<<53 { // below that a double holds every integer
		if given := longInteger(text); given != "" && given != strconv.FormatFloat(f, 'f', -1, 64) {
			return append(dst, given...), nil
		}
	}
	return appendDouble(dst, f), nil
}

// longInteger is a JSON number that is far from zero, without an exponent and with all its digits. It is
// empty when the number is no integer, or has at most 15 digits before its zeros, which a double gives
// back. big.Rat would say so too, at ten times the cost.
func longInteger(text string) string {
	number, negative := strings.CutPrefix(text, "-")
	mantissa, exponent := number, 0
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		mantissa = number[:i]
		exponent, _ = strconv.Atoi(number[i+1:]) // checkNumber has bounded it
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(whole+fraction, "0")
	zeros := len(whole) + exponent - len(digits)
	if zeros < 0 || len(digits) <= 15 {
		return ""
	}
	digits = strings.TrimLeft(digits+strings.Repeat("0", zeros), "0")
	if negative {
		return "-" + digits
	}
	return digits
}

// shortInteger reports whether text is an integer that is canonical as it
// stands and that every double holds: up to 15 digits, not -0.
func shortInteger(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	if len(digits) == 0 || len(digits) > 15 || text == "-0" {
		return false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	return true
}

// appendDouble writes f as ECMAScript's Number.prototype.toString does
// (RFC 8785 section 3.2.2.3). f is finite.
func appendDouble(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0') // -0 too
	}
	if abs := math.Abs(f); abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	text := strconv.FormatFloat(f, 'e', -1, 64) // 1.5e-07, 1e+21
	mantissa, exp, _ := strings.Cut(text, "e")
	dst = append(dst, mantissa...)
	dst = append(dst, 'e', exp[0])
	return append(dst, strings.TrimLeft(exp[1:], "0")...)
}

// rational reads a number as the validator's own arithmetic does; nil when v
// is no number.
func rational(v any) *big.Rat {
	var text string
	switch n := v.(type) {
	case json.Number:
		text = n.String()
	case float64:
		text = strconv.FormatFloat(n, 'g', -1, 64)
	case int:
		text = strconv.Itoa(n)
	default:
		return nil
	}
	if checkNumber(text) != nil {
		return nil
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	return r
}

// toNumber writes r as a JSON number, exactly when that takes at most 20
// decimals.
func toNumber(r *big.Rat) json.Number {
	if r.IsInt() {
		return json.Number(r.Num().String())
	}
	places, exact := r.FloatPrec()
	if !exact || places > 20 {
		places = 20
	}
	return json.Number(strings.TrimRight(r.FloatString(places), "0"))
}

// isNumber reports whether text is a JSON number (RFC 8259) within bounds.
func isNumber(text string) bool {
	if text == "" || len(text) > maxNumberLen || (text[0] != '-' && (text[0] < '0' || text[0] > '9')) {
		return false
	}
	return json.Valid([]byte(text)) && checkNumber(text) == nil
}
