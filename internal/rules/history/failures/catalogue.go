package failures

import (
	"slices"

	"github.com/sidecall/sidecall/internal/tool"
)

// aboutFiles is for what tools say of files and directories.
var aboutFiles = []Rule{
	{
		Codes: either, Only: true, says: `command not found|executable file not found|no module named|cannot find module|is not installed`,
		Suggest: []string{"A program or library is missing where the tool runs: do it with what is there, or tell the user what to install."},
	},
	{
		Codes: refused, says: `no such file*|enoent|cannot find the file|cannot find the path|file/files/directory/folder/path + not found/does not exist/doesn't exist/not exist`,
		Suggest: []string{
			"List the directory above it, and compare the names letter by letter, upper and lower case too.",
			"Check from which directory the path counts: the root, the workspace or somewhere else.",
			"It may have been moved, renamed or deleted earlier in this conversation: look back at what was done.",
		},
	},
	{
		Codes: refused, says: `is a directory|not a directory|eisdir|enotdir`,
		Suggest: []string{"The path names a directory where a file is wanted, or the other way round: look at what it is."},
	},
	{
		Codes: refused, says: `file exists|already exists|eexist`,
		Suggest: []string{
			"Read what is there: it may be the very thing that is wanted.",
			"Take another name, or change what is there instead of creating it.",
		},
	},
	{
		Codes: slices.Concat(refused, one(tool.CodeDependencyUnavailable)), says: `no space left*|enospc|disk full|disk is full|edquot`,
		Suggest: []string{"There is no room left to write: tell the user, or remove what this task itself has written and nobody needs."},
	},
	{
		Codes: refused, says: `permission denied|eacces|eperm|operation not permitted|read-only file*|access is denied|outside + workspace/allowed/permitted/sandbox`,
		Suggest: []string{
			"Find out where reading and writing is allowed (owner, mode, sandbox), and work there.",
			"Read it first: if that works, only writing is forbidden.",
			"Ask the user to do this part, or to allow it.",
		},
	},
	{
		Codes: refused, says: `resource busy|text file busy|ebusy|locked by|is locked|lock held|lock is held`,
		Tried: TriedWaited, Suggest: []string{"Something else holds it: do other parts of the task first, and come back to it after a minute."},
	},
}

// aboutArguments is for what they say of their arguments.
var aboutArguments = []Rule{
	{
		Codes: refused, says: `date/dates/time zone/timezone/timestamp/datetime/date-time + invalid/format/pars*/expected/must be/malformed/unrecognized/unknown|iso 8601|iso-8601|iso8601|rfc 3339|rfc3339|yyyy*`,
		Suggest: []string{"Write days as YYYY-MM-DD, and times with their zone: 2026-11-21T09:00:00Z."},
	},
	{
		Codes: refused, says: `utf-8|utf8|encoding|charset|unicode|codec|invalid byte*|base64`,
		Suggest: []string{"Send plain UTF-8 text without control characters; what is no text goes in base64, where the tool takes that."},
	},
	{
		Codes: refused, says: `json + invalid/malformed/unexpected/parse/parsing/decode/error/unterminated|unexpected token|looking for beginning of`,
		Suggest: []string{"Send JSON itself where an object or a list is wanted, not a text that contains it; look at quotes, commas and brackets."},
	},
	{
		Codes: either, says: `too large|too long|too big|too many|maximum size|maximum length|maximum number|exceeds|out of memory|oom|memory limit`,
		Tried: TriedSmaller, Suggest: []string{"Send or ask for less at a time: a smaller range, fewer items, a part of the text."},
	},
	{
		Codes: refused, says: `url/uri/scheme/protocol + invalid/malformed/unsupported/missing`,
		Suggest: []string{"Write the address in full, with its scheme (https://), and escape what stands in it."},
	},
	{
		Codes: refused, says: `regular expression|regex|regexp|invalid pattern|unbalanced paren*|unterminated group|unterminated character`,
		Suggest: []string{"Escape the characters that mean something in a pattern, or search for the plain text."},
	},
	{
		Codes: refused, says: `no such column|unknown column|no such table|unknown table|relation + does not exist|invalid object name|syntax error at or near|sql syntax`,
		Suggest: []string{"Look at which tables and columns there are before the next query."},
	},
}

// aboutServices is for what a service allows, and what state it is in.
var aboutServices = []Rule{
	{
		Codes: slices.Concat(refused, one(tool.CodeRateLimited)), says: `quota/quotas|usage limit|monthly limit|daily limit|plan limit|storage limit|credit limit|credits exhausted|credits used up|limit reached|limit exceeded|limit was exceeded|limit has been reached|limit has been exceeded|exceeded your`,
		Suggest: []string{"What is used up does not come back in seconds: tell the user what is used up, and what of the task is done."},
	},
	{
		Codes: refused, says: `insufficient funds|insufficient balance|insufficient credit*|card/payment + declined|not enough funds|not enough balance|not enough stock|out of stock`,
		Suggest: []string{"Do not look for an amount that passes: tell the user, and let them decide."},
	},
	{
		Codes: refused, says: `expired|too late|no longer|window has|past the`,
		Suggest: []string{"The time for this is over, and another form of the call will not bring it back: tell the user what is still possible."},
	},
	{
		Codes: refused, says: `etag|if-match|precondition*|version mismatch|version conflict|stale|was modified|been modified|changed since`,
		Tried: TriedChanged, Suggest: []string{"It was changed meanwhile: read it anew, and send the version that it has now."},
	},
	{
		Codes: refused, says: `duplicate*|already + done/processed/completed/registered/cancelled/canceled/refunded/paid/closed|unique constraint`,
		Suggest: []string{"It may have been done already: look before anything else."},
	},
	{
		Codes: either, says: `deadlock*|lock wait timeout|serialization failure|could not serialize`,
		Tried: TriedWaited, Suggest: []string{"Another transaction was in the way: read the state, and try once more after a moment."},
	},
	{
		Codes: refused, says: `not implemented|not supported|unsupported|deprecated|unknown command|unknown option|unknown flag|unknown method|unrecognized option*|unrecognized argument*`,
		Suggest: []string{"The tool cannot do this: take another way to the same end, or leave this part out and say so."},
	},
}

// aboutTheWay is for what happened on the way to it.
var aboutTheWay = []Rule{
	{
		Codes: broken, says: `no such host|name resolution|name or service not known|enotfound|getaddrinfo|nxdomain|dns`,
		Tried: TriedChanged, Suggest: []string{"If the host name is one of the arguments, look at how it is spelt."},
	},
	{
		Codes: broken, says: `connection refused|econnrefused|actively refused`,
		Suggest: []string{"Nothing listens there: the service is down, or a port among the arguments is wrong."},
	},
	{
		Codes: broken, says: `certificate*|x509|tls|ssl`,
		Suggest: []string{"The connection is not trusted. Do not go around that: tell the user which service it is."},
	},
}
