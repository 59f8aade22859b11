BEGIN TRANSACTION;
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL);
INSERT INTO "alembic_version" VALUES('e43177bfe90b');
CREATE TABLE assignment (
	id VARCHAR(32) NOT NULL, 
	name VARCHAR(128) NOT NULL, 
	duedate DATETIME, 
	course_id VARCHAR(128) NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name), 
	FOREIGN KEY(course_id) REFERENCES course (id)
);
INSERT INTO "assignment" VALUES('562366b60684423e8639343671d833d1','99_doubling',NULL,'convolution-to-cluster');
CREATE TABLE base_cell (
	id VARCHAR(32) NOT NULL, 
	name VARCHAR(128) NOT NULL, 
	notebook_id VARCHAR(32) NOT NULL, 
	type VARCHAR(50), 
	PRIMARY KEY (id), 
	UNIQUE (name, notebook_id, type), 
	FOREIGN KEY(notebook_id) REFERENCES notebook (id)
);
INSERT INTO "base_cell" VALUES('a7f9317458294a638037e56ecf371283','double-of-one','dcb8018540b8493797950babe651958d','GradeCell');
INSERT INTO "base_cell" VALUES('c5c3779f5cdc4b4bb641a9deba84fdf4','double-of-others','dcb8018540b8493797950babe651958d','GradeCell');
INSERT INTO "base_cell" VALUES('8eebb0622d514e75a61cd1c744dddf91','double','dcb8018540b8493797950babe651958d','SolutionCell');
CREATE TABLE comment (
	id VARCHAR(32) NOT NULL, 
	notebook_id VARCHAR(32), 
	cell_id VARCHAR(32), 
	auto_comment TEXT, 
	manual_comment TEXT, 
	PRIMARY KEY (id), 
	UNIQUE (cell_id, notebook_id), 
	FOREIGN KEY(notebook_id) REFERENCES submitted_notebook (id), 
	FOREIGN KEY(cell_id) REFERENCES base_cell (id)
);
INSERT INTO "comment" VALUES('fc969eca127944318f116f7aea63cb1c','bf4cc4ce2d6f483b9a09e85b0e0c1c3b','8eebb0622d514e75a61cd1c744dddf91',NULL,NULL);
INSERT INTO "comment" VALUES('7d02b1ae19584f27ae6dd3a44fe3c586','0b638dde6854406c84594dac1efa971f','8eebb0622d514e75a61cd1c744dddf91',NULL,NULL);
CREATE TABLE course (
	id VARCHAR(128) NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (id)
);
INSERT INTO "course" VALUES('convolution-to-cluster');
INSERT INTO "course" VALUES('default_course');
CREATE TABLE grade (
	id VARCHAR(32) NOT NULL, 
	notebook_id VARCHAR(32), 
	cell_id VARCHAR(32), 
	auto_score FLOAT, 
	manual_score FLOAT, 
	extra_credit FLOAT, 
	needs_manual_grade BOOLEAN NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (cell_id, notebook_id), 
	FOREIGN KEY(notebook_id) REFERENCES submitted_notebook (id), 
	FOREIGN KEY(cell_id) REFERENCES base_cell (id)
);
INSERT INTO "grade" VALUES('5e527c5a180645f5aa7b70fd1c70df97','bf4cc4ce2d6f483b9a09e85b0e0c1c3b','a7f9317458294a638037e56ecf371283',1.0,NULL,NULL,0);
INSERT INTO "grade" VALUES('bb3d8ca9a94140308d35c667a0dc8d36','bf4cc4ce2d6f483b9a09e85b0e0c1c3b','c5c3779f5cdc4b4bb641a9deba84fdf4',2.0,NULL,NULL,0);
INSERT INTO "grade" VALUES('866957a0deea44d3a6c00c5355c4ee36','0b638dde6854406c84594dac1efa971f','a7f9317458294a638037e56ecf371283',1.0,NULL,NULL,0);
INSERT INTO "grade" VALUES('f1f3851fb77a4216b7f0d570463c8f34','0b638dde6854406c84594dac1efa971f','c5c3779f5cdc4b4bb641a9deba84fdf4',0.0,NULL,NULL,0);
CREATE TABLE grade_cells (
	id VARCHAR(32) NOT NULL, 
	max_score FLOAT NOT NULL, 
	cell_type VARCHAR(8) NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(id) REFERENCES base_cell (id)
);
INSERT INTO "grade_cells" VALUES('a7f9317458294a638037e56ecf371283',1.0,'code');
INSERT INTO "grade_cells" VALUES('c5c3779f5cdc4b4bb641a9deba84fdf4',2.0,'code');
CREATE TABLE notebook (
	id VARCHAR(32) NOT NULL, 
	name VARCHAR(128) NOT NULL, 
	assignment_id VARCHAR(32), 
	kernelspec VARCHAR(1024), 
	PRIMARY KEY (id), 
	UNIQUE (name, assignment_id), 
	FOREIGN KEY(assignment_id) REFERENCES assignment (id)
);
INSERT INTO "notebook" VALUES('dcb8018540b8493797950babe651958d','doubling','562366b60684423e8639343671d833d1','{"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}');
CREATE TABLE solution_cells (
	id VARCHAR(32) NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(id) REFERENCES base_cell (id)
);
INSERT INTO "solution_cells" VALUES('8eebb0622d514e75a61cd1c744dddf91');
CREATE TABLE source_cell (
	id VARCHAR(32) NOT NULL, 
	name VARCHAR(128) NOT NULL, 
	cell_type VARCHAR(8) NOT NULL, 
	locked BOOLEAN NOT NULL, 
	source TEXT, 
	checksum VARCHAR(128), 
	notebook_id VARCHAR(32), 
	PRIMARY KEY (id), 
	UNIQUE (name, notebook_id), 
	FOREIGN KEY(notebook_id) REFERENCES notebook (id)
);
INSERT INTO "source_cell" VALUES('974968cbf2614b7d9462716a87a894d5','double','code',0,'def double(x):
    """Twice x."""
    # YOUR CODE HERE
    raise NotImplementedError','97c14aedec9576a64d0e00beb8905fce','dcb8018540b8493797950babe651958d');
INSERT INTO "source_cell" VALUES('1c4428518dd94ac9b8f72cab43ee057a','double-of-one','code',1,'"""2 · 1 is 2."""
assert double(1) == 2','cb37954e8d1254d73d55d641958ed994','dcb8018540b8493797950babe651958d');
INSERT INTO "source_cell" VALUES('43e1f2f15b6643e48ea78f249bdb1bf2','double-of-others','code',1,'"""Other numbers."""
import sys
print("a warning on stderr", file=sys.stderr)
from cluster.grading import autotest, close
autotest(double(0.1 + 0.2)).matches("W1siZmxvYXQiLCAwLjYwMDAwMDAwMDAwMDAwMDEsIDFlLTA2XSwgbnVsbCwgbnVsbF0=", "double(0.1 + 0.2)")

### BEGIN HIDDEN TESTS
assert double(17) == 34
### END HIDDEN TESTS','372765f1a442479a075ddf25f1e0a8f1','dcb8018540b8493797950babe651958d');
CREATE TABLE student (
	id VARCHAR(128) NOT NULL, 
	first_name VARCHAR(128), 
	last_name VARCHAR(128), 
	email VARCHAR(128), 
	lms_user_id VARCHAR(128), 
	PRIMARY KEY (id)
);
INSERT INTO "student" VALUES('ada',NULL,NULL,NULL,NULL);
INSERT INTO "student" VALUES('bob',NULL,NULL,NULL,NULL);
CREATE TABLE submitted_assignment (
	id VARCHAR(32) NOT NULL, 
	assignment_id VARCHAR(32), 
	student_id VARCHAR(128), 
	timestamp DATETIME, 
	extension DATETIME, 
	PRIMARY KEY (id), 
	UNIQUE (assignment_id, student_id), 
	FOREIGN KEY(assignment_id) REFERENCES assignment (id), 
	FOREIGN KEY(student_id) REFERENCES student (id)
);
INSERT INTO "submitted_assignment" VALUES('eec1df37bd7447d0bfc5c4c7c52506bc','562366b60684423e8639343671d833d1','ada','2026-01-01 00:00:00.000000',NULL);
INSERT INTO "submitted_assignment" VALUES('294cad9b49be4c3eb5f3c3a6e72e9b5d','562366b60684423e8639343671d833d1','bob','2026-01-01 00:00:00.000000',NULL);
CREATE TABLE submitted_notebook (
	id VARCHAR(32) NOT NULL, 
	assignment_id VARCHAR(32), 
	notebook_id VARCHAR(32), 
	flagged BOOLEAN, 
	late_submission_penalty FLOAT, 
	PRIMARY KEY (id), 
	UNIQUE (notebook_id, assignment_id), 
	FOREIGN KEY(assignment_id) REFERENCES submitted_assignment (id), 
	FOREIGN KEY(notebook_id) REFERENCES notebook (id)
);
INSERT INTO "submitted_notebook" VALUES('bf4cc4ce2d6f483b9a09e85b0e0c1c3b','eec1df37bd7447d0bfc5c4c7c52506bc','dcb8018540b8493797950babe651958d',0,NULL);
INSERT INTO "submitted_notebook" VALUES('0b638dde6854406c84594dac1efa971f','294cad9b49be4c3eb5f3c3a6e72e9b5d','dcb8018540b8493797950babe651958d',0,NULL);
CREATE TABLE task_cells (
	id VARCHAR(32) NOT NULL, 
	max_score FLOAT NOT NULL, 
	cell_type VARCHAR(8) NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(id) REFERENCES base_cell (id)
);
COMMIT;
