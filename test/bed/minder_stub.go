package bed
func holdNode(string) error { return nil }
func removeCgroups(string) error { return nil }
