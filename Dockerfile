# The course as an image, for one person: JupyterLab, or the user image of a JupyterHub.
#
#     docker build -t course .
#     docker run --rm -p 8888:8888 course
#
# Nothing in it needs root. What a hub mounts over the home folder hides nothing of the
# course, which lies in /opt/course; the lessons are copied into the home folder when
# the container starts. A limit of 2 GiB is enough for four ranks: see TEACHING.md.
FROM docker.io/library/python:3.11-slim-bookworm

ARG NB_USER=jovyan
ARG NB_UID=1000
RUN useradd --create-home --uid "${NB_UID}" "${NB_USER}"
RUN mkdir /opt/course /opt/venv && chown "${NB_UID}" /opt/course /opt/venv

USER ${NB_UID}
ENV HOME=/home/${NB_USER} PATH=/opt/venv/bin:${PATH} PIP_NO_CACHE_DIR=1
WORKDIR /opt/course
RUN python -m venv /opt/venv

# The pins change seldom: this layer is built again only when they do.
COPY --chown=${NB_UID} requirements.txt requirements-hub.txt ./
RUN python -m pip install --extra-index-url https://download.pytorch.org/whl/cpu -r requirements.txt -r requirements-hub.txt

COPY --chown=${NB_UID} . .
RUN python -m pip install --no-deps -e .
RUN python tools/settings.py
RUN python -m course_utils doctor

WORKDIR ${HOME}
EXPOSE 8888
ENTRYPOINT ["python", "/opt/course/tools/start.py"]
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--no-browser"]
