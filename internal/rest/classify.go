package rest

import (
	"net/http"
	"path"
	"strings"
)

// classes is a set of failure classes.
type classes uint32

const (
	notFound classes = 1 << iota
	exists
	guestExists
	locked
	permission
	authentication
	invalidParameter
	digestMismatch
	nodeUnreachable
	proxyBroken
	noQuorum
	timeout
	notImplemented
	unknownToServer
	removed
	notAPI
	workerStart
	agent
	running
	notRunning
	protected
	inUse
	noSpace
)

// has translates a sentinel into its bit. It is a switch and not a map so that the
// package needs no initialisation.
func (c classes) has(target error) bool {
	var bit classes
	switch target {
	case ErrNotFound:
		bit = notFound
	case ErrExists:
		bit = exists
	case ErrGuestExists:
		bit = guestExists
	case ErrLocked:
		bit = locked
	case ErrPermission:
		bit = permission
	case ErrAuthentication:
		bit = authentication
	case ErrInvalidParameter:
		bit = invalidParameter
	case ErrDigestMismatch:
		bit = digestMismatch
	case ErrNodeUnreachable:
		bit = nodeUnreachable
	case ErrProxy:
		bit = proxyBroken
	case ErrNoQuorum:
		bit = noQuorum
	case ErrTimeout:
		bit = timeout
	case ErrNotImplemented:
		bit = notImplemented
	case ErrUnknownToServer:
		bit = unknownToServer
	case ErrRemoved:
		bit = removed
	case ErrNotAPI:
		bit = notAPI
	case ErrWorkerStart:
		bit = workerStart
	case ErrAgent:
		bit = agent
	case ErrRunning:
		bit = running
	case ErrNotRunning:
		bit = notRunning
	case ErrProtected:
		bit = protected
	case ErrInUse:
		bit = inUse
	case ErrNoSpace:
		bit = noSpace
	}
	return c&bit != 0
}

// temporary says whether repeating a call that failed so is worth while and harmless.
func (c classes) temporary(read bool, status int) bool {
	switch {
	case c&(permission|authentication|invalidParameter|digestMismatch|exists|notFound) != 0:
		return false
	case c&(locked|noQuorum|workerStart) != 0, status == statusConnect:
		return true
	case read && c&(nodeUnreachable|proxyBroken|timeout) != 0:
		return true
	case read:
		return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
	}
	return false
}

// Statuses that come from the event library by which one node asks another.
const (
	statusConnect = 595 // no connection to the other side: it has seen nothing
	statusTLS     = 596 // broke during the handshake, the request or the head of the answer
	statusBody    = 597
	statusAborted = 598
	statusOther   = 599
)

// A rule puts texts into classes. The texts are lower case.
type rule struct {
	add  classes
	text string // must occur
	and  string // must occur too, if set
	not  string // must not occur, if set
}

// rules is the one place where a server's words decide what kind of failure it is.
// They apply to refusals and to the end of tasks. Every rule adds its classes; when a
// rule of final adds something, the rest of the table is not asked, so that "can't
// lock file … got timeout" is a lock and no timeout.
var (
	final = [...]rule{
		{permission, "permission check failed", "", ""},
		{permission, "only root can ", "", ""},
		{permission, "backup owner check failed", "", ""},
		{permission | invalidParameter, "only root may use this option", "", ""},
		{digestMismatch, "checksum mismatch (file change by other user?)", "", ""},
		{digestMismatch, "detected modified configuration", "", ""},
		{noQuorum, "no quorum", "", ""},
		{noQuorum, "not quorate", "", ""},
		// Without a majority the cluster's file system is read-only.
		{noQuorum, "/etc/pve/", "permission denied", ""},
		{locked, "can't lock file", "", ""},
		{locked, "got lock request timeout", "", ""},
		{locked, "got lock timeout", "", ""},
		{locked, "cfs-lock", "timeout", ""},
		{locked, "unable to acquire lock", "", ""},
		{locked, "unable to acquire", "lock", ""},
		{locked, "invalid lock token provided", "", ""},
		{locked, "is locked (", "", ""},
		{locked, "vm is locked", "", ""},
		{locked, "ct is locked", "", ""},
		{locked, "/lvs ", "got timeout", ""},
		{locked, "/vgs ", "got timeout", ""},
		{locked, "/pvs ", "got timeout", ""},
		{locked, "/lvcreate ", "got timeout", ""},
		{locked, "/lvremove ", "got timeout", ""},
		{locked, "/lvchange ", "got timeout", ""},
		{locked, "/lvextend ", "got timeout", ""},
		{workerStart, "got no worker upid", "", ""},
		{workerStart, "start worker failed", "", ""},
		{notImplemented, "the command guest-", "has not been found", ""},
		{notImplemented, "the command guest-", "disabled", ""},
		{agent, "guest agent", "not running", ""},
		{agent, "no qemu guest agent configured", "", ""},
		{agent, "qmp command 'guest-", "got timeout", ""},
		{agent, "qmp command 'guest-", "unable to connect", ""},
		{removed, "have been migrated to rules", "", ""},
		{protected, "protection mode enabled", "", ""},
		{nodeUnreachable, "hostname lookup '", "failed", ""},
		{nodeUnreachable, "address lookup for '", "", ""},
		{nodeUnreachable, "rpcenvironment init request failed", "", ""},
		{nodeUnreachable, "ipcc_send_rec", "", ""},
		// The same text stands for a missing file and for one that cannot be read, so it
		// proves nothing.
		{0, "volume_size_info on ", "no format", ""},
		{0, "unable to get last line from task log", "", ""},
		// A program is missing on the node, nothing that the call named.
		{0, "open3: exec of ", "no such file", ""},
	}

	rules = [...]rule{
		{exists | guestExists, "config file already exists", "", ""},
		{exists, "already exists", "", ""},
		{exists, "already defined", "", ""},
		{exists, "already exist in ", "", ""},
		{exists, "file exists", "", ""},
		{exists, "refusing to override existing file", "", ""},
		{exists, "is already a pool member", "", ""},
		{exists, "snapshot name '", "already used", ""},

		{notFound, "does not exist", "", "invalid bootorder"},
		{notFound, "doesn't exist", "", ""},
		{notFound, "don't exist", "", ""},
		{notFound, "no such", "", "no such option"},
		{notFound, "unable to find configuration file for ", "", ""},
		{notFound, "not ha managed", "", ""},
		{notFound, "no rule at position", "", ""},
		{notFound, "can't find ", "", ""},
		{notFound, "unable to find bridge port", "", ""},
		{notFound, "not found", "", "invalid format"},

		{invalidParameter, "parameter verification", "", ""},
		{invalidParameter, "failed: 400 ", "", ""},
		{unknownToServer | invalidParameter, notInSchema, "", ""},
		{invalidParameter, "missing value for required option", "", ""},
		{invalidParameter, "unexpected property '", "", ""},
		{invalidParameter, "unknown section type '", "", ""},
		{invalidParameter, "no such option '", "", ""},
		{invalidParameter, "no options specified", "", ""},
		{invalidParameter, "invalid bootorder", "", ""},
		{invalidParameter, "unable to parse ", "", ""},
		{invalidParameter, "invalid format - ", "", ""},

		{running, "already running", "", ""},
		{running, "is running - ", "", ""},
		{notRunning, " not running", "", ""},

		{inUse, "still in use", "", ""},
		{inUse, "is used by ", "", ""},
		{inUse, "is not empty", "", ""},
		{inUse, "if subnets exist", "", ""},
		{inUse, "used in ha resources", "", ""},
		{inUse, "still busy in guest", "", ""},
		{inUse, "dataset is busy", "", ""},
		{inUse, "has watchers", "", ""},
		{inUse, "contains a filesystem in use", "", ""},

		{noSpace, "no space left on device", "", ""},
		{noSpace, "not enough free space", "", ""},
		{noSpace, "insufficient free space", "", ""},
		{noSpace, "insufficient free extents", "", ""},
		{noSpace, "out of space", "", ""},
		{noSpace, "disk quota exceeded", "", ""},

		{timeout, "got timeout", "", ""},
		{timeout, "timeout while waiting", "", ""},
		{timeout, "timeout waiting ", "", ""},
		{timeout, "timed out", "", ""},
	}
)

// classify decides what kind of failure a text is.
func classify(text string) classes {
	text = strings.ToLower(text)
	matches := func(r rule) bool {
		return strings.Contains(text, r.text) && strings.Contains(text, r.and) && (r.not == "" || !strings.Contains(text, r.not))
	}
	var c classes
	for _, r := range final {
		if matches(r) {
			return r.add
		}
	}
	for _, r := range rules {
		if matches(r) {
			c |= r.add
		}
	}
	if c&exists != 0 && guestTaken(text) {
		c |= guestExists
	}
	return c
}

// guestTaken recognises "vm 218 already exists", which must not be taken for "unable to
// create vm 218 - image vm-218-disk-0 already exists".
func guestTaken(text string) bool {
	for {
		before, after, found := strings.Cut(text, " already exists")
		if !found {
			return false
		}
		words := strings.Fields(before)
		if n := len(words); n >= 2 && (words[n-2] == "vm" || words[n-2] == "ct") && strings.Trim(words[n-1], "0123456789") == "" {
			return true
		}
		text = after
	}
}

// classes decides from the status first: the body of a 403 may hold any text.
func (e *Error) classes() classes {
	var c classes
	if e.notAPI {
		c = notAPI
	}
	switch e.Status {
	case http.StatusUnauthorized:
		return c | authentication
	case http.StatusForbidden:
		return c | permission
	case http.StatusNotFound:
		return c | e.classesOf404()
	case http.StatusNotImplemented, 506:
		if e.unknownOperation() {
			c |= unknownToServer
		}
		return c | notImplemented
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return c | timeout
	case statusConnect, statusTLS:
		return c | nodeUnreachable
	case statusBody, statusAborted, statusOther:
		return c | proxyBroken
	}
	if e.notAPI {
		return c
	}
	if e.Status == http.StatusOK && strings.HasPrefix(e.Reason, "Command") {
		c |= notImplemented // by a guest's agent: CommandNotFound, CommandDisabled
	}
	return c | classifyAll(e.Message, e.Params)
}

// classesOf404 tells an object that is gone, which the API explains, from a path that
// the API does not know and from a server that is not the API.
func (e *Error) classesOf404() classes {
	switch {
	case e.unknownOperation():
		return notImplemented | unknownToServer
	case e.Message == "" || e.Message == http.StatusText(http.StatusNotFound):
		return notAPI
	}
	return notFound
}

// classifyAll classifies a message together with the complaints by parameter.
func classifyAll(message string, params map[string]string) classes {
	c := classify(message)
	for _, text := range params {
		c |= classify(text)
	}
	if len(params) > 0 {
		c |= invalidParameter
		if strings.Contains(strings.ToLower(message), "hotplug problem") {
			c &^= notFound
		}
	}
	return c
}

// lockName finds the name of a lock in a server's text.
func lockName(text string) string {
	if !classify(text).has(ErrLocked) {
		return ""
	}
	if _, after, ok := strings.Cut(text, "is locked ("); ok {
		name, _, _ := strings.Cut(after, ")")
		return name
	}
	for _, before := range [...]string{"can't lock file '", "cfs-lock '", "cfs-locked '"} {
		if _, after, ok := strings.Cut(text, before); ok {
			name, _, _ := strings.Cut(after, "'")
			return path.Base(name)
		}
	}
	return ""
}

// paramsFromText collects the complaints by parameter that stand in a message instead
// of a map: lines "name: text" under "Parameter verification failed.", the same on one
// line at the end of a task, and the spellings of Proxmox Backup Server.
func paramsFromText(message string) map[string]string {
	first, rest, _ := strings.Cut(message, "\n")
	lower := strings.ToLower(first)
	i := strings.Index(lower, "parameter verification ")
	switch {
	case i >= 0:
		tail := first[i+len("parameter verification "):]
		for _, word := range [...]string{"failed", "errors", "error"} {
			if after, ok := cutPrefixFold(tail, word); ok {
				tail = after
				break
			}
		}
		if tail = strings.TrimLeft(tail, " .:-"); tail != "" {
			rest = tail + "\n" + rest
		}
	case strings.Contains(lower, "failed: 400 "), strings.HasPrefix(lower, "400 "):
	default:
		return nil
	}
	var params map[string]string
	for line := range strings.Lines(rest) {
		name, text, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "- ")), ": ")
		name = strings.TrimPrefix(name, "parameter ")
		name = strings.Trim(name, "'")
		if !ok || !isParamName(name) {
			continue
		}
		if params == nil {
			params = make(map[string]string, 1)
		}
		params[name] = strings.TrimSpace(text)
	}
	return params
}

func isParamName(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	for _, r := range name {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("_-.[]", r):
		default:
			return false
		}
	}
	return true
}
