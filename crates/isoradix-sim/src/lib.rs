//! Many ranks in one process, in virtual time, under a seeded plan of faults.
