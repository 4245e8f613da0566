%% The BEAM's own figures, for the rows that are measured against it: gen_server:call, a burst of casts, spawn and exit.
%% Reads lines "CASE N" and answers each with one line of JSON, as the peers' scripts do; see _beam.py.
-module(beam).
-export([main/0, init/1, handle_call/3, handle_cast/2]).

init(_) -> {ok, 0}.
handle_call({take, N}, _From, S) -> {reply, S + N, S + N}.
handle_cast({add, N, _Label}, S) -> {noreply, S + N}.

calls(_, 0) -> ok;
calls(P, N) -> gen_server:call(P, {take, 1}), calls(P, N - 1).

casts(_, 0) -> ok;
casts(P, N) -> gen_server:cast(P, {add, 1, label}), casts(P, N - 1).

%% As Tenure's tell: bursts of 512, after each of them wait until the receiver has caught up.
bursts(_, N) when N =< 0 -> ok;
bursts(P, N) -> casts(P, 512), gen_server:call(P, {take, 0}), bursts(P, N - 512).

spawns(0) -> ok;
spawns(N) ->
    {Q, M} = spawn_monitor(fun() -> receive stop -> ok end end),
    Q ! stop,
    receive {'DOWN', M, _, Q, _} -> ok end,
    spawns(N - 1).

ran("call", N) -> {ok, P} = gen_server:start(?MODULE, [], []), timed("call", N, fun() -> calls(P, N) end), gen_server:stop(P);
ran("cast", N) ->
    {ok, P} = gen_server:start(?MODULE, [], []),
    timed("cast", (N + 511) div 512 * 512, fun() -> bursts(P, N) end),
    gen_server:stop(P);
ran("spawn_stop", N) -> timed("spawn_stop", N, fun() -> spawns(N) end).

%% The CPU time counts in milliseconds: choose N so that a case takes a hundred of them.
timed(Case, N, F) ->
    {Cpu, _} = erlang:statistics(runtime),
    Wall = erlang:monotonic_time(nanosecond),
    F(),
    Took = erlang:monotonic_time(nanosecond) - Wall,
    {Now, _} = erlang:statistics(runtime),
    io:format("{\"case\": \"~s\", \"n\": ~w, \"wall\": ~w, \"cpu\": ~w, \"version\": \"~s\"}~n",
              [Case, N, Took / 1.0e9, (Now - Cpu) / 1.0e3, erlang:system_info(otp_release)]).

main() ->
    case io:get_line("") of
        eof -> halt();
        {error, _} -> halt(1);
        Line ->
            [Case, N] = string:lexemes(Line, " \n"),
            ran(Case, list_to_integer(N)),
            main()
    end.
