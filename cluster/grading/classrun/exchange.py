"""`nbgrader collect` and Formgrader's button, by the same rules as `grade collect`."""

from nbgrader.exchange.default import ExchangeCollect

from cluster.grading.classrun import collect


class Collect(ExchangeCollect):
    """nbgrader's plug-in: nbgrader_config.py names it as ExchangeFactory.collect."""

    def init_src(self):
        if not self.coursedir.assignment_id:
            self.fail("No assignment id specified: nbgrader collect ASSIGNMENT")
        self.inbox = collect.inbox(self.coursedir, self.config)
        if not self.inbox.is_dir():
            self.fail(f"Course not found: {self.inbox}")

    def copy_files(self):
        student = self.coursedir.student_id
        new, same, refused = collect.collect(
            self.coursedir,
            self.coursedir.assignment_id,
            self.inbox,
            student=None if student in ("", "*") else student,
            check_owner=self.check_owner,
        )
        for name, one in new.items():
            self.log.info("Collected %s, handed in %s by the server's clock", name, one.when)
        self.log.info("%d collected, %d unchanged, %d refused", len(new), len(same), len(refused))
        for folder, why in refused.items():
            self.log.error("Refused %s: %s", folder, why)
