package cpi

import (
	"context"
	"errors"
	"strings"

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
	switch {
	case errors.Is(err, pve.ErrPermission):
		return c.explainPermission(err, what, needs)
	case errors.Is(err, pve.ErrAuthentication):
		return rpc.CloudError("%s: PVE does not accept the API token %s: check that it exists, has not expired, and that the secret is the right one: %w",
			what, c.cfg.TokenID, err)
	case errors.Is(err, pve.ErrCertificate):
		return rpc.CloudError("%s: the certificate of the API is not the expected one: check ca_certificate or fingerprint in the configuration: %w", what, err)
	case errors.Is(err, pve.ErrNoQuorum):
		return rpc.CloudError("%s: the cluster has no quorum, so nothing can be changed until more than half of its nodes are back (see pvecm status): %w",
			what, err).OKToRetry(true)
	case errors.Is(err, pve.ErrNoSpace):
		return rpc.NoDiskSpace("%s: %w", what, err)
	case errors.Is(err, pve.ErrLocked):
		return rpc.CloudError("%s: %w: wait for the task that holds the lock; when none runs any more, remove the lock with qm unlock", what, err).OKToRetry(true)
	case errors.Is(err, pve.ErrDigestMismatch), errors.Is(err, pve.ErrNodeUnreachable), errors.Is(err, pve.ErrProxy),
		errors.Is(err, pve.ErrNoAnswer), errors.Is(err, pve.ErrNotSent), errors.Is(err, pve.ErrTimeout), errors.Is(err, pve.ErrWorkerStart):
		return rpc.CloudError("%s: %w", what, err).OKToRetry(true)
	case errors.Is(err, context.DeadlineExceeded), fromGateway(err):
		return rpc.CloudError("%s: %w", what, err).OKToRetry(true)
	}
	return rpc.CloudError("%s: %w", what, err)
}

// explainPermission says which privilege is missing on which path, and on which
// path to grant it: guests get theirs from the resource pool.
func (c *CPI) explainPermission(err error, what string, needs []need) error {
	path, privilege := refusedPrivilege(err)
	if privilege == "" {
		if len(needs) == 0 {
			return rpc.CloudError("%s: the API token %s lacks a privilege: %w", what, c.cfg.TokenID, err)
		}
		names := make([]string, len(needs))
		for i, n := range needs {
			names[i] = n.String()
		}
		return rpc.CloudError("%s: the API token %s lacks one of %s: grant it there: %w", what, c.cfg.TokenID, strings.Join(names, ", "), err)
	}
	where := "grant it there"
	if strings.HasPrefix(path, "/vms/") {
		where = "grant it on the resource pool of the guest"
		if c.cfg.Pool != "" {
			where = "grant it on /pool/" + c.cfg.Pool
		}
	}
	return rpc.CloudError("%s: the API token %s lacks %s on %s: %s, to the token and to its user: %w",
		what, c.cfg.TokenID, privilege, path, where, err)
}

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
