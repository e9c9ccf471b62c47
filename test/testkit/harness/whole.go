package harness

import "os"

// WholeEnv is the environment variable that, when set, has the large tables of the
// end-to-end tests run as a whole. Else they run in part: everything in them once,
// but not everything together with everything else, which takes minutes.
const WholeEnv = "SIDECALL_E2E_WHOLE"

// Whole reports whether tables are run as a whole.
func Whole() bool { return os.Getenv(WholeEnv) != "" }
