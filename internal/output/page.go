package output

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// DefaultPage is a page in characters when none is asked for. It fits
	// DefaultLimit with a boundary and a line about the position around it.
	DefaultPage = 6_000
	// MaxPage is the largest page, in characters. It serves programs; what a
	// model is given at a time is bounded by the output limit of read_output. In
	// any script it fits the 4 MiB that a gRPC client reads.
	MaxPage = 500_000
	// MaxReaders is how many outputs each of those who serve pages reads at a time:
	// an output is taken whole out of the store, for a page of it. Others wait.
	MaxReaders = 4
)

// Page returns the characters from offset on, at most limit of them (0 means
// DefaultPage, more than MaxPage means MaxPage). It ends on a grapheme boundary,
// unless the page is smaller than the grapheme. Pages read one after the other,
// each at the NextOffset of the last, are the whole, exactly.
//
// With a pattern (RE2) Content holds the lines that match instead: see search,
// which ends with ctx.
//
// data is what Shape kept. A parameter that cannot be served is answered by an
// error for the model, with the parameter as field.
func Page(ctx context.Context, data []byte, offset, limit int64, pattern string) (PageResult, *tool.Error) {
	if !utf8.Valid(data) { // not as Shape kept it: damaged on the way
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	total := int64(countChars(data))
	if wrong := checkPage(offset, limit, total, "characters"); wrong != nil {
		return PageResult{}, wrong
	}
	if limit == 0 {
		limit = DefaultPage
	}
	limit = min(limit, MaxPage)
	start := indexChar(data, int(offset))
	if pattern != "" {
		return search(ctx, data, place{index: start, char: offset}, total, int(limit), pattern)
	}
	end := start + indexChar(data[start:], int(limit))
	if at := clusterFloor(data, end); at > start {
		end = at
	}
	page := data[start:end]
	return PageResult{Content: string(page), TotalChars: total, NextOffset: offset + int64(countChars(page))}, nil
}

const (
	// DefaultBytes is a page in bytes when none is asked for.
	DefaultBytes = 1 << 20
	// MaxBytes is the largest page in bytes; what a gRPC client reads has room for
	// it.
	MaxBytes = 3<<20 - 4<<10
)

// PageBytes returns the bytes from offset on, at most limit of them (0 means
// DefaultBytes, more than MaxBytes means MaxBytes), and where the next page
// begins. What is no text cannot be searched.
func PageBytes(data []byte, offset, limit int64, pattern string) (page []byte, next int64, wrong *tool.Error) {
	total := int64(len(data))
	if wrong := checkPage(offset, limit, total, "bytes"); wrong != nil {
		return nil, 0, wrong
	}
	if pattern != "" {
		return nil, 0, wrongArgument("pattern", "must be empty for what is no text", quoted(pattern), "Leave pattern out, then call read_output again.")
	}
	if limit == 0 {
		limit = DefaultBytes
	}
	next = min(offset+min(limit, MaxBytes), total)
	return data[offset:next], next, nil
}

func checkPage(offset, limit, total int64, unit string) *tool.Error {
	switch {
	case offset < 0:
		return wrongArgument("offset", "minimum: 0", strconv.FormatInt(offset, 10),
			"Set offset to 0 to read from the start, then call read_output again.")
	case offset > total:
		return wrongArgument("offset", fmt.Sprintf("maximum: %d", total), strconv.FormatInt(offset, 10),
			fmt.Sprintf("The output has %d %s. Set offset to a number from 0 to %d, then call read_output again.", total, unit, total))
	case limit < 0:
		return wrongArgument("limit", "minimum: 1", strconv.FormatInt(limit, 10),
			fmt.Sprintf("Set limit to the number of %s to read, e.g. %d, or leave it out.", unit, DefaultPage))
	default:
		return nil
	}
}
