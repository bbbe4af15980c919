package cpi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/proxkit/proxkit/cpi/rpc"
	"github.com/proxkit/proxkit/pve"
)

// A need names a privilege for a server that refuses without saying which one is
// missing.
type need struct {
	Privilege string
	Path      string
}

func (n need) String() string { return n.Privilege + " on " + n.Path }

// explain turns an error of the API into one that says to the operator what was
// being done, what is wrong and what to do. An error that has a class already
// keeps it. The needs are named when the server refuses without naming one.
func (c *CPI) explain(err error, what string, needs ...need) error {
	if err == nil {
		return nil
	}
	var classed *rpc.Error
	if errors.As(err, &classed) {
		return err
	}
	if what != "" {
		what += ": "
	}
	switch {
	case errors.Is(err, pve.ErrPermission):
		return c.explainPermission(err, what, needs)
	case errors.Is(err, pve.ErrAuthentication):
		return rpc.CloudError("%sPVE does not accept the API token %s: check that it exists, has not expired, and that the secret is the right one: %w",
			what, c.cfg.TokenID, err)
	case errors.Is(err, pve.ErrCertificate):
		return rpc.CloudError("%sthe certificate of the API is not the expected one: check ca_certificate or fingerprint in the configuration: %w", what, err)
	case errors.Is(err, pve.ErrNoQuorum):
		return rpc.CloudError("%sthe cluster has no quorum, so nothing can be changed until more than half of its nodes are back (see pvecm status): %w",
			what, err).OKToRetry(true)
	case errors.Is(err, pve.ErrNoSpace):
		return rpc.NoDiskSpace("%s%w", what, err)
	case errors.Is(err, pve.ErrLocked):
		return rpc.CloudError("%s%w: wait for the task that holds the lock; when none runs any more, remove the lock with qm unlock", what, err).OKToRetry(true)
	case errors.Is(err, pve.ErrNotSent) && errors.Is(err, errRequestTimeout):
		return rpc.CloudError("%sthe connection to the API or its TLS handshake did not finish within the request_timeout of %s: check endpoint, and that no firewall drops the packets: %w",
			what, seconds(c.cfg.RequestTimeout), err).OKToRetry(true)
	case errors.Is(err, errRequestTimeout):
		return rpc.CloudError("%sthe API gave no answer within the request_timeout of %s: %w", what, seconds(c.cfg.RequestTimeout), err).OKToRetry(true)
	case errors.Is(err, pve.ErrDigestMismatch), errors.Is(err, pve.ErrNodeUnreachable), errors.Is(err, pve.ErrProxy),
		errors.Is(err, pve.ErrNoAnswer), errors.Is(err, pve.ErrNotSent), errors.Is(err, pve.ErrTimeout), errors.Is(err, pve.ErrWorkerStart):
		return rpc.CloudError("%s%w", what, err).OKToRetry(true)
	case errors.Is(err, context.DeadlineExceeded), fromGateway(err):
		return rpc.CloudError("%s%w", what, err).OKToRetry(true)
	}
	return rpc.CloudError("%s%w", what, err)
}

// explainPermission says which privilege is missing on which path, and on which
// path to grant it: guests get theirs from the resource pool.
func (c *CPI) explainPermission(err error, what string, needs []need) error {
	lacks := "a privilege"
	if pool := missingPool(err); pool != "" {
		return rpc.CloudError("%sthe resource pool %s does not exist: make it, or correct pool: %w", what, pool, err)
	}
	if path, privilege := refusedPrivilege(err); privilege != "" {
		needs = []need{{privilege, path}}
	} else if len(needs) > 1 {
		lacks = "one of "
	}
	var names []string
	for _, n := range needs {
		if strings.HasPrefix(n.Path, "/vms/") && c.cfg.Pool != "" {
			n.Path = c.guestPath()
		}
		if !slices.Contains(names, n.String()) {
			names = append(names, n.String())
		}
	}
	if len(names) > 0 {
		lacks = strings.TrimPrefix(lacks, "a privilege") + strings.Join(names, ", ")
	}
	return rpc.CloudError("%sthe API token %s lacks %s: %s%s: %w", what, c.cfg.TokenID, lacks, grantThere, c.poolHint(needs), err)
}

// grantThere ends every message about a missing privilege. A token with privilege
// separation, which is what PVE makes by default, may do what both it and its user
// may do.
const grantThere = "grant it there, to the token and to its user"

// poolHint reminds of the pool when rights on guests are missing: PVE refuses what
// concerns a pool that does not exist, or a guest outside it, in the same words.
func (c *CPI) poolHint(needs []need) string {
	for _, n := range needs {
		pool, ok := strings.CutPrefix(n.Path, "/pool/")
		if !ok && strings.HasPrefix(n.Path, "/vms/") {
			pool = c.cfg.Pool
		}
		if pool != "" {
			return fmt.Sprintf("; or the pool %s does not exist, or the guest is not in it", pool)
		}
	}
	return ""
}

// missingPool returns the pool that a refusal says does not exist.
func missingPool(err error) string {
	_, rest, ok := strings.Cut(err.Error(), "ermission check failed (pool '")
	if !ok {
		return ""
	}
	pool, rest, _ := strings.Cut(rest, "'")
	if !strings.HasPrefix(rest, " does not exist") {
		return ""
	}
	return pool
}

// errRequestTimeout is why the context of a request ended that took too long.
var errRequestTimeout = fmt.Errorf("request_timeout is over: %w", context.DeadlineExceeded)

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'g', 4, 64) + " s" }

// refusedPrivilege finds what a refusal names, as in "Permission check failed
// (/vms/100, VM.Audit)". Several privileges, of which one would do, are joined by
// " or ".
func refusedPrivilege(err error) (path, privilege string) {
	_, rest, ok := strings.Cut(err.Error(), "ermission check failed (")
	if !ok {
		return "", ""
	}
	rest, _, _ = strings.Cut(rest, ")")
	path, privilege, ok = strings.Cut(rest, ", ")
	if !ok || !strings.HasPrefix(path, "/") {
		return "", ""
	}
	return path, strings.ReplaceAll(privilege, "|", " or ")
}

// unsettled reports whether a write that failed with err may have taken effect
// all the same: the request went out and no answer of the server's own came back.
func unsettled(err error) bool {
	if err == nil || errors.Is(err, pve.ErrNotSent) {
		return false
	}
	if errors.Is(err, errNoTask) || errors.Is(err, pve.ErrNoAnswer) || errors.Is(err, pve.ErrProxy) || errors.Is(err, pve.ErrTimeout) {
		return true
	}
	if e, ok := errors.AsType[*pve.Error](err); ok {
		// 596: the connection between two nodes broke, at whatever point.
		return e.Status == 596 || fromGateway(err)
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// errNoTask says that the server took a request and named no task for it, so that
// only what became of the guest tells whether it was done.
var errNoTask = errors.New("the server answered without naming the task that it began")

// mayHaveBegun reports whether a task that ended with err, or nil, may have been
// begun: it was not refused.
func mayHaveBegun(err error) bool {
	_, waited := errors.AsType[*pve.TaskWaitError](err)
	return err == nil || waited || isTaskError(err) || unsettled(err)
}

// fromGateway reports whether a proxy between the CPI and the cluster answered that
// it did not get an answer itself.
func fromGateway(err error) bool {
	e, ok := errors.AsType[*pve.Error](err)
	return ok && (e.Status == 502 || e.Status == 503 || e.Status == 504)
}

// nodeFault reports whether err is about the node, so that another node may well
// do what this one could not.
func nodeFault(err error) bool {
	if errors.Is(err, pve.ErrNodeUnreachable) || errors.Is(err, pve.ErrProxy) || errors.Is(err, pve.ErrTimeout) || errors.Is(err, errRefusedNode) {
		return true
	}
	return strings.Contains(err.Error(), "is not available on node")
}

// errRefusedNode marks a node that turned out not to serve after it was chosen.
var errRefusedNode = errors.New("node cannot serve")
