package output

import "regexp"

// lookAlike is the least that reads like a tag: any spelling of "<", of slashes and
// spaces, bare or escaped as in JSON or HTML, then the name.
var lookAlike = regexp.MustCompile(
	`(?i)(?:<|＜|﹤|\\+u003c|\\+uff1c|\\+ufe64|&lt;?|&#0*60;?|&#x0*3c;?)` +
		`((?:[\s\p{Z}/\\／]|\\[nrt]|\\+u002f|\\+uff0f|\\+u0020|\\+u000[9ad]|&sol;|&#0*47;?|&#x0*2f;?)*` +
		`untrusted(?:[\s\p{Z}_-]|\\+u005f|&lowbar;|&#0*95;?|&#x0*5f;?)*output)`)
