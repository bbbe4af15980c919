package rest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A UPID names a task, as
// "UPID:pve1:000011A5:00052BA7:6B0E103A:qmclone:300:root@pam!deploy:". The empty UPID
// means that the server did the work at once, which some calls do depending on version
// and state; waiting for it returns at once.
type UPID string

// String returns the UPID as the servers write it.
func (u UPID) String() string { return string(u) }

// UPIDInfo is what a [UPID] tells about its task.
type UPIDInfo struct {
	// Remote and RemoteType are set for tasks that Proxmox Datacenter Manager knows on
	// another installation.
	Remote     string
	RemoteType string // "pve", "pbs" or empty if not told

	Node   string
	PID    int64
	PStart int64 // when the process started, in clock ticks since the node's boot
	// TaskID tells tasks of one process apart; HasTaskID is false for Proxmox VE, which
	// has none.
	TaskID    int64
	HasTaskID bool
	Start     time.Time
	Type      string // as "qmclone"
	ID        string // what the task works on, as "300"; may be empty
	User      string // as "root@pam"
	Token     string // the name of the API token, if one started the task
}

// Parse takes the UPID apart. It accepts what Proxmox VE and Proxmox Backup Server
// make, and both with the remote in front, as Proxmox Datacenter Manager shows them
// ("pve:lab!UPID:…", "lab!UPID:…", "lab:UPID:…").
func (u UPID) Parse() (UPIDInfo, error) {
	var info UPIDInfo
	fail := func(what string) (UPIDInfo, error) {
		return UPIDInfo{}, fmt.Errorf("%q is no UPID: %s", string(u), what)
	}
	prefix, native, ok := u.split()
	if !ok {
		return fail("it does not begin with UPID:")
	}
	if prefix != "" {
		remote := prefix[:len(prefix)-1]
		if kind, name, ok := strings.Cut(remote, ":"); ok {
			info.RemoteType, remote = kind, name
		}
		if info.Remote = remote; !isWord(remote) || strings.ContainsAny(info.RemoteType, ":!/ ") {
			return fail("the remote in front of it is damaged")
		}
	}
	fields := strings.Split(native, ":")
	switch len(fields) {
	case 9:
	case 10:
		info.HasTaskID = true
	default:
		return fail("it has the wrong number of parts")
	}
	if fields[len(fields)-1] != "" {
		return fail("the last colon is missing")
	}
	info.Node = fields[1]
	if !isHostname(info.Node) {
		return fail("it names no node")
	}
	numbers := []struct {
		value    *int64
		what     string
		min, max int
	}{
		{&info.PID, "process", 8, 8},
		{&info.PStart, "process start", 8, 9},
	}
	if info.HasTaskID {
		numbers = append(numbers, struct {
			value    *int64
			what     string
			min, max int
		}{&info.TaskID, "task number", 8, 16})
	}
	var start int64
	numbers = append(numbers, struct {
		value    *int64
		what     string
		min, max int
	}{&start, "start time", 8, 8})
	for i, n := range numbers {
		text := fields[2+i]
		value, err := strconv.ParseUint(text, 16, 64)
		if err != nil || len(text) < n.min || len(text) > n.max || value > 1<<63-1 {
			return fail("its " + n.what + " is no hexadecimal number of the right length")
		}
		*n.value = int64(value)
	}
	info.Start = time.Unix(start, 0)
	rest := fields[2+len(numbers):]
	info.Type, info.ID = rest[0], rest[1]
	if info.Type == "" || strings.ContainsAny(info.Type+info.ID+rest[2], " \t\r\n\v\f") {
		return fail("its type is missing or a part has spaces")
	}
	info.User, info.Token, _ = strings.Cut(rest[2], "!")
	if info.User == "" {
		return fail("it names no user")
	}
	return info, nil
}

// UPID puts the parts together again.
func (i UPIDInfo) UPID() UPID {
	var b strings.Builder
	if i.Remote != "" {
		if i.RemoteType != "" {
			b.WriteString(i.RemoteType + ":")
		}
		b.WriteString(i.Remote + "!")
	}
	fmt.Fprintf(&b, "UPID:%s:%08X:%08X:", i.Node, i.PID, i.PStart)
	if i.HasTaskID {
		fmt.Fprintf(&b, "%08X:", i.TaskID)
	}
	user := i.User
	if i.Token != "" {
		user += "!" + i.Token
	}
	fmt.Fprintf(&b, "%08X:%s:%s:%s:", i.Start.Unix(), i.Type, i.ID, user)
	return UPID(b.String())
}

// split separates the remote in front, with its separator, from the UPID proper.
func (u UPID) split() (prefix, native string, ok bool) {
	text := string(u)
	if strings.HasPrefix(text, "UPID:") {
		return "", text, true
	}
	for _, separator := range [...]string{"!UPID:", ":UPID:"} {
		if i := strings.Index(text, separator); i > 0 {
			return text[:i+1], text[i+1:], true
		}
	}
	return "", "", false
}

// Node returns the node the task runs on, or "" for what is no UPID.
func (u UPID) Node() string {
	info, err := u.Parse()
	if err != nil {
		return ""
	}
	return info.Node
}

func isHostname(text string) bool {
	for i, r := range text {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		case r == '-' && i > 0 && i < len(text)-1:
		default:
			return false
		}
	}
	return text != ""
}

func isWord(text string) bool {
	for i, r := range text {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_':
		case (r == '-' || r == '.') && i > 0:
		default:
			return false
		}
	}
	return text != ""
}
