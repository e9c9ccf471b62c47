package app

import (
	"slices"
	"strings"

	"github.com/sidecall/sidecall/internal/config"
)

// reloaded are the keys that a generation is made of, or that are read anew with it.
// What is not here is opened, or sized, once: addresses, the store with all that its
// records stand on, the process's own bounds.
var reloaded = []string{
	"identity", "pins", "observe", "store_down", "keep_arguments", "defaults", "backends", "tools", "profiles", "default_profile",
	"limits.max_batch", "limits.batch_parallel", "limits.keep_output_bytes", "limits.output_ttl",
}

// needRestart says which keys of a config are not as they were and cannot change while
// the sidecar runs.
func needRestart(now, next *config.Config) (problems config.Problems) {
	changed := now.Differences(next, func(path []string) bool { return slices.Contains(reloaded, strings.Join(path, ".")) })
	for _, path := range changed {
		problem := next.Where(path...)
		problem.Message, problem.Rule = "this is not what the sidecar was started with, and needs a restart", config.RuleConflict
		problems = append(problems, problem)
	}
	config.SortProblems(problems)
	return problems
}
