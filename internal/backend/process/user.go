package process

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// User is the user that a program runs as.
type User struct {
	UID, GID uint32
	// Groups are all its groups, GID among them.
	Groups []uint32
}

// LookUpUser reads user[:group], each a name or a number. Without a group the
// program has all groups of the user, with one that alone. The error says what is
// not known.
func LookUpUser(text string) (*User, error) {
	name, group, withGroup := strings.Cut(text, ":")
	if name == "" || withGroup && group == "" {
		return nil, errors.New("expected user or user:group, by name or number")
	}
	found := &User{}
	account, err := lookUpAccount(name)
	switch uid, isNumber := id(name); {
	case err == nil:
		if found.UID, isNumber = id(account.Uid); !isNumber {
			return nil, fmt.Errorf("user %s has no number here", name)
		}
	case !isNumber:
		return nil, fmt.Errorf("there is no user %s on this machine", name)
	case !withGroup:
		return nil, fmt.Errorf("user %s has no entry on this machine, so its group is not known: expected %s:GROUP", name, name)
	default:
		found.UID = uid
	}
	if withGroup {
		if found.GID, err = lookUpGroup(group); err != nil {
			return nil, err
		}
		found.Groups = []uint32{found.GID}
		return found, nil
	}
	if err := found.join(account); err != nil {
		return nil, err
	}
	return found, nil
}

// join gives the user the groups of an account.
func (u *User) join(account *user.User) error {
	groups, err := account.GroupIds()
	if err != nil {
		return fmt.Errorf("the groups of user %s cannot be read: %w", account.Username, err)
	}
	gid, isNumber := id(account.Gid)
	if !isNumber {
		return fmt.Errorf("the group of user %s has no number here: %s", account.Username, account.Gid)
	}
	u.GID, u.Groups = gid, []uint32{gid}
	for _, text := range groups {
		if gid, ok := id(text); ok && !slices.Contains(u.Groups, gid) {
			u.Groups = append(u.Groups, gid)
		}
	}
	return nil
}

// lookUpAccount finds a name, or else the account of a number.
func lookUpAccount(name string) (*user.User, error) {
	account, err := user.Lookup(name)
	if _, isNumber := id(name); err != nil && isNumber {
		return user.LookupId(name)
	}
	return account, err
}

func lookUpGroup(name string) (uint32, error) {
	if group, err := user.LookupGroup(name); err == nil {
		if gid, ok := id(group.Gid); ok {
			return gid, nil
		}
	}
	if gid, ok := id(name); ok {
		return gid, nil
	}
	return 0, fmt.Errorf("there is no group %s on this machine", name)
}

// id is a number of a user or a group; the highest means "unchanged" to the kernel.
func id(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil && n != 1<<32-1
}

// IsOwn reports whether the user is the one that this process runs as.
func (u *User) IsOwn() bool {
	return int(u.UID) == os.Geteuid() && int(u.GID) == os.Getegid()
}

// Permitted returns why this process may not start programs as the user, and end
// them; nil when it may.
func (u *User) Permitted() error {
	if u.IsOwn() {
		return nil
	}
	return mayChangeUser()
}
