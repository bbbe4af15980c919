package pvetest

// may tells whether the caller has a privilege on a path.
func (c *call) may(path, priv string) bool {
	return true
}

// check fails with 403 unless the caller has all privs on path.
func (c *call) check(path string, privs ...string) error {
	for _, p := range privs {
		if !c.may(path, p) {
			return failPerm(path, privs...)
		}
	}
	return nil
}

// checkAny fails with 403 unless the caller has one of privs on path.
func (c *call) checkAny(path string, privs ...string) error {
	for _, p := range privs {
		if c.may(path, p) {
			return nil
		}
	}
	return failPerm(path, privs...)
}
