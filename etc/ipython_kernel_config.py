"""For every kernel of this environment: `%%px` before `launch` says what to do."""

c = get_config()  # noqa: F821
c.InteractiveShellApp.extensions.append("course_utils_plugins")
