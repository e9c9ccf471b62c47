package app

import (
	"cmp"
	"os"

	"github.com/sidecall/sidecall/internal/backend/exectool"
	"github.com/sidecall/sidecall/internal/config"
)

func entrustedExec(cfg config.Backend) entrusted {
	return entrusted{values: []map[string]config.Secret{cfg.Exec.Env.Set}, passed: cfg.Exec.Env.Pass}
}

// buildExec gathers the commands of the backend's declared tools: they are part
// of its construction.
func buildExec(b blueprint) (built, error) {
	commands := make(map[string]exectool.Command)
	for name, t := range b.tools {
		if t.Backend == b.name && t.Exec != nil {
			commands[name] = execCommand(t.Exec)
		}
	}
	user, err := userOf(b.config.Exec.RunAs)
	if err != nil {
		return built{}, err
	}
	made, err := exectool.New(exectool.Config{
		Name: b.name, Dir: cmp.Or(b.config.Exec.Dir.Reveal(), b.dir), Env: b.config.Exec.Env.List(os.LookupEnv), Tools: commands, User: user,
	})
	if err != nil {
		return built{}, err
	}
	return built{made, nothingToRegister}, nil
}

func execCommand(t *config.ExecTool) exectool.Command {
	command := exectool.Command{Argv: config.RevealList(t.Argv), ExitCodes: make(map[int]exectool.Exit)}
	for code, meaning := range t.ExitCodes {
		command.ExitCodes[code] = exectool.Exit{
			Code: meaning.Code, Hint: meaning.Hint,
			AllowedAlternatives: meaning.AllowedAlternatives, NotExecuted: meaning.NotExecuted,
			Success: meaning.Success,
		}
	}
	return command
}
