/// The `kintsugi` command line.
#pragma once

namespace kintsugi::cli {

/// Runs one command and returns the exit code: 0 done, 1 failed, 2 wrong usage. A failure is one clear line on stderr.
int run(int argc, char** argv);

}  // namespace kintsugi::cli
