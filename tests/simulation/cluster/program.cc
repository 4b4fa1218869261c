#include "tests/simulation/cluster/program.h"

#include <boost/asio/co_spawn.hpp>

namespace kintsugi::simulation {

void Graveyard::bury(std::unique_ptr<Program> program) {
  if (!program) return;
  graves_.push_back({std::move(program), false});
  Grave* grave = &graves_.back();
  asio::co_spawn(simulation_.executor(), grave->program->stop(), [grave](std::exception_ptr error) {
    if (error) std::rethrow_exception(error);
    grave->stopped = true;
  });
}

bool Graveyard::quiet() {
  graves_.remove_if([](const Grave& grave) { return grave.stopped; });
  return graves_.empty();
}

}  // namespace kintsugi::simulation
