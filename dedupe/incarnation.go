package dedupe

import (
	"strconv"
	"strings"
)

// An instance is a sidecar as its operator knows it, an incarnation one process of
// it. Of an instance one incarnation is alive at a time (tenure.go), each with a
// number that is higher than those before it. The owner of a claim says of which
// it is:
//
//	@instance@number.whatever tells the calls of the process apart
//
// So whoever is asked for a call that an earlier incarnation holds knows that its
// owner is gone, and does not wait for its lease. An owner that begins with
// anything else says nothing of itself, as that of a process without an instance;
// it is nobody's predecessor.
const ownerMark = "@"

// MaxInstanceBytes bounds the name of an instance.
const MaxInstanceBytes = 200

// ownerOf is how the owners of an incarnation begin.
func ownerOf(instance string, number int64) string {
	return ownerMark + ownerEscaper.Replace(instance) + ownerMark + strconv.FormatInt(number, 10) + "."
}

// No two instances have owners that begin alike, whatever is in their names.
var ownerEscaper = strings.NewReplacer("%", "%25", ownerMark, "%40")

// incarnationOf reads of which incarnation of what instance an owner is.
func incarnationOf(owner string) (instance string, number int64, ok bool) {
	rest, marked := strings.CutPrefix(owner, ownerMark)
	instance, rest, named := strings.Cut(rest, ownerMark)
	digits, _, dotted := strings.Cut(rest, ".")
	number, err := strconv.ParseInt(digits, 10, 64)
	return instance, number, marked && named && dotted && err == nil && digits[0] != '+' && digits[0] != '-'
}

// succeeds reports that an owner is of a later incarnation than another, of the
// same instance: the other's process is gone, or may do nothing any more.
func succeeds(owner, other string) bool {
	instance, number, ok := incarnationOf(owner)
	of, earlier, known := incarnationOf(other)
	return ok && known && instance == of && number > earlier
}
