package app

import (
	"fmt"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/tool"
)

// grant lets a tool be called as it wishes, where the config says nothing.
func grant(wishes *tool.Wishes, as *config.Discovered, cfg *config.Config) error {
	if wishes == nil {
		return nil
	}
	if most := cfg.MaxDeadline(); wishes.Deadline > most {
		return fmt.Errorf("deadline: it is %s, and a call may take %s: a longer one would be forgotten while it runs (retention)", wishes.Deadline, most)
	}
	policy, said := &as.Policy, &as.Rules
	if said.Deadline == 0 && wishes.Deadline > 0 {
		policy.Deadline = wishes.Deadline
	}
	if said.AttemptTimeout == 0 && wishes.AttemptTimeout > 0 {
		policy.AttemptTimeout = wishes.AttemptTimeout
	}
	policy.AttemptTimeout = min(policy.AttemptTimeout, policy.Deadline)
	policy.Sequential = policy.Sequential || wishes.Sequential
	policy.Polling = policy.Polling || wishes.Polling
	policy.FailsCleanly = policy.FailsCleanly || wishes.FailsCleanly
	if said.OnCancel == "" {
		policy.CancelWithCaller = wishes.CancelWithCaller
	}
	return nil
}
