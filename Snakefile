# Loads a study, includes the rules, names the targets; the work is done by the verbs of `xsa`.
#
#   snakemake results/report.html                      the paper study
#   snakemake results/demo/report.html                 another study of config/studies/
#   snakemake --config study=my_study                  the page of a study whose name is given

from xsa.study.workflow import Workflow, told

RESULTS = config.get("results", "results")
STUDY = config.get("study", "paper")
FRONT_PAGE = "paper"


flow = told(Workflow, STUDY, RESULTS)
flow.limit_devices(workflow)


wildcard_constraints:
    result=r"[A-Za-z0-9._-]+@[0-9a-f]{10}",
    study=r"[A-Za-z0-9][A-Za-z0-9_.-]*",


report: "report/captions/workflow.rst"


localrules:
    all,
    publish,
    front_page,


rule all:
    input:
        f"{RESULTS}/{flow.study}/report.html",


include: "rules/data.smk"
include: "rules/train.smk"
include: "rules/evaluate.smk"
include: "rules/diagnose.smk"
include: "rules/report.smk"


onstart:
    jobs = [
        (job.rule.name, job.wildcards.get("result"))
        for job in workflow.dag.needrun_jobs()
    ]
    told(flow.begin, jobs, workflow)


onerror:
    told(flow.tell_failures)
