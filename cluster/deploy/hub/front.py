"""The hub's own pages: what the log-in says, and a page of errors with a way back. Pure text."""

LOG_IN = (
    "From Convolution to Cluster: log in with your account on this machine. "
    "The password is the one that your instructor gave you, until you change it."
)
# JupyterHub's own page says the reason twice, and leads nowhere.
ERROR = """\
{% extends "templates/error.html" %}
{% block error_detail %}
{% if message_html or message != status_message %}{{ super() }}{% endif %}
<p><a href="{{ base_url }}home">Back to your own pages</a></p>
{% endblock %}
"""
