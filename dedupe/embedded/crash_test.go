package embedded

const crashChild = "SIDECALL_TEST_CRASH_CHILD"
func runCrashChild(string) {}
