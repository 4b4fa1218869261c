/// A process that dies unasked says why, so that no death goes unexplained.
#pragma once

#include <string>
#include <string_view>

namespace kintsugi {

/// To be called in the first lines of a daemon's main. From then on a line that begins with `name` says why the process
/// ends, on stderr and in the file of set_last_words_file: an exception that nobody caught, a failed
/// assertion, and every signal whose default is to end the process, with the number of the process that sent
/// it. Cores are written as before. SIGPIPE is ignored: a closed pipe or socket is an error of the write.
void install_last_words(std::string_view name);

/// Last words are appended to this file, besides stderr. A path that is too long for a file system is ignored.
void set_last_words_file(const std::string& path);

/// `wait` is called before last words are written, which are the last in the file then. It runs in a signal handler
/// and must return soon.
void set_before_last_words(void (*wait)());

/// Writes `text` as one line. May be called in a signal handler.
void write_last_words(std::string_view text);

}  // namespace kintsugi
