package cpi

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"github.com/proxkit/proxkit/cpi/rpc"
)

// The CIDs of this CPI. Each is also a tag of the guest that stands for the
// thing, beside the tag of its kind, so a lookup is one look at the list of
// guests whatever the kind.
//
//	VM        vm-101-k3v9q2m8x1z7       the VMID and twelve random characters: a VMID that was reused is never mistaken for ours
//	disk      disk-k3v9q2m8x1z7c4b      exactly twenty characters, which is the drive's serial and what the agent looks for
//	stemcell  stemcell-<32 hex digits>  from the SHA-256 of the image, so that the same image has the same CID everywhere

const (
	vmPrefix       = "vm-"
	diskPrefix     = "disk-"
	stemcellPrefix = "stemcell-"

	vmTokenLength   = 12
	diskTokenLength = 15
	digestLength    = 32
)

// A CIDError says that a CID cannot be one of this CPI's. It is found before any
// request is made.
type CIDError struct {
	// Kind is what was expected: "vm", "disk" or "stemcell".
	Kind    string
	CID     string
	Problem string
}

// Error implements error.
func (e *CIDError) Error() string {
	if e.CID == "" {
		return fmt.Sprintf("the %s CID %s", e.Kind, e.Problem)
	}
	cid := e.CID
	if len(cid) > 80 {
		cid = cid[:80] + "…"
	}
	return fmt.Sprintf("the %s CID %q %s", e.Kind, cid, e.Problem)
}

// A VMID is the number of a guest in PVE.
type VMID = int64

// A vmCID is a parsed VM CID.
type vmCID struct {
	VMID  VMID
	Token string
}

func (c vmCID) String() string { return vmPrefix + strconv.FormatInt(c.VMID, 10) + "-" + c.Token }

// newVMToken returns the random part of a VM CID.
func newVMToken() string { return randomToken(vmTokenLength) }

// parseVMCID parses a VM CID.
func parseVMCID(cid rpc.VMCID) (vmCID, error) {
	rest, err := cutPrefix("vm", string(cid), vmPrefix)
	if err != nil {
		return vmCID{}, err
	}
	number, token, _ := strings.Cut(rest, "-")
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil || id < 100 || id > 999_999_999 || strconv.FormatInt(id, 10) != number || !isToken(token, vmTokenLength) {
		return vmCID{}, &CIDError{"vm", string(cid), fmt.Sprintf("is not of the form vm-<vmid>-<%d characters>", vmTokenLength)}
	}
	return vmCID{id, token}, nil
}

// newDiskCID returns the CID of a new disk.
func newDiskCID() rpc.DiskCID { return rpc.DiskCID(diskPrefix + randomToken(diskTokenLength)) }

// parseDiskCID checks a disk CID.
func parseDiskCID(cid rpc.DiskCID) error {
	rest, err := cutPrefix("disk", string(cid), diskPrefix)
	if err != nil {
		return err
	}
	if !isToken(rest, diskTokenLength) {
		return &CIDError{"disk", string(cid), fmt.Sprintf("is not of the form disk-<%d characters>", diskTokenLength)}
	}
	return nil
}

// newStemcellCID returns the CID of the image with the SHA-256 digest, in
// hexadecimal digits.
func newStemcellCID(digest string) rpc.StemcellCID {
	return rpc.StemcellCID(stemcellPrefix + digest[:digestLength])
}

// parseStemcellCID checks a stemcell CID.
func parseStemcellCID(cid rpc.StemcellCID) error {
	rest, err := cutPrefix("stemcell", string(cid), stemcellPrefix)
	if err != nil {
		return err
	}
	if len(rest) != digestLength || strings.Trim(rest, "0123456789abcdef") != "" {
		return &CIDError{"stemcell", string(cid), fmt.Sprintf("is not of the form stemcell-<%d hexadecimal digits>", digestLength)}
	}
	return nil
}

func cutPrefix(kind, cid, prefix string) (string, error) {
	if strings.TrimSpace(cid) == "" {
		return "", &CIDError{kind, "", "is empty"}
	}
	rest, ok := strings.CutPrefix(cid, prefix)
	if ok {
		return rest, nil
	}
	for other, p := range map[string]string{"vm": vmPrefix, "disk": diskPrefix, "stemcell": stemcellPrefix} {
		if other != kind && strings.HasPrefix(cid, p) {
			return "", &CIDError{kind, cid, fmt.Sprintf("is the CID of a %s", other)}
		}
	}
	return "", &CIDError{kind, cid, fmt.Sprintf("was not made by this CPI: it does not begin with %q", prefix)}
}

func randomToken(length int) string {
	// 32 characters, without i, l, o and u: people read these aloud. Lower case,
	// because PVE lower-cases tags.
	const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
	token := make([]byte, length)
	// crypto/rand.Read never fails: it ends the process instead.
	_, _ = rand.Read(token)
	for i, b := range token {
		token[i] = alphabet[b&31]
	}
	return string(token)
}

func isToken(s string, length int) bool {
	return len(s) == length && strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}
