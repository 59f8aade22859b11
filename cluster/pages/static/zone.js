// Forms of dates begin with the time zone of who fills them in, which the server cannot know.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone) for (const input of document.querySelectorAll("input[data-zone]")) input.value = zone;
