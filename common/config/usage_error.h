/// Errors of a command line, in the same words for every program.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace kintsugi::config {

/// One sentence on `error`, which `app` threw while it parsed.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace kintsugi::config
