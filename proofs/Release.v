(* The two together: the premise of Promise.v holds of the step of Step.v, so the promise does. *)
From mathcomp Require Import ssreflect ssrfun ssrbool eqtype ssrnat seq choice fintype finfun bigop finset fingroup perm.
From mathcomp Require Import ssralg ssrnum rat.
From kanonflow Require Import Promise Numbers Step.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory GroupScope.
Local Open Scope ring_scope.

Lemma count_by_value (T : eqType) (s : seq T) (P : pred T) :
  (\sum_(u <- undup s | P u) count_mem u s)%N = count P s.
Proof.
rewrite -sum1_count (eq_bigr (fun u => \sum_(x <- s | x == u) 1)%N); last by move=> u _; rewrite sum1_count.
rewrite (exchange_big_dep xpredT) //= [RHS]big_mkcond /= [LHS]big_seq [RHS]big_seq; apply: eq_bigr => x xs.
rewrite (eq_bigl (fun u => (u == x) && P u)); last by move=> u; rewrite andbC eq_sym.
by rewrite big_mkcondr -big_filter filter_pred1_uniq ?undup_uniq ?mem_undup // big_seq1.
Qed.

Section Release.
Variables (person trail : finType) (payload : eqType) (rows : trail -> nat -> seq (row payload)).
Variables (k cohort_size : nat) (intake : nat -> nat) (delay : nat).
Variables (found : nat -> seq person -> person -> nat) (merge : nat -> seq (option cohort) -> groups -> counts -> cohort -> nat).
Variables (ends : nat -> nat) (closing : pred nat).
(* How many steps the epoch has had, over all runs that continue each other. *)
Variable steps : nat.
Notation people := (enum person).
Notation world := (world person trail).

Let trails (w : world) p := rows (w p).
Let final (w : world) := home (state_at people k cohort_size intake delay ends closing found merge (trails w) steps).
Definition public_of (w : world) := view people k cohort_size intake delay ends closing found merge (trails w) steps.
Definition bundle_of (w : world) p := bundle people k cohort_size intake delay ends closing found merge (trails w) steps p.

(* The reader sees the view of the world as it is, and of each cohort all bundles, each whole. *)
Variable real : world.
Definition members c : {set person} := [set p | final real p == Some c].
Definition published (w : world) : rat :=
  ((public_of w == public_of real) &&
   [forall p, if final real p is Some c then
      perm_eq [seq bundle_of w q | q <- enum (members c)] [seq bundle_of real q | q <- enum (members c)]
    else true])%:R.

Let at_end (w : world) e := state_at people k cohort_size intake delay ends closing found merge (trails w) e.

Lemma same_home w : public_of w = public_of real -> final w =1 final real.
Proof.
rewrite /final /public_of /view; case: steps => [//|n] same p.
have := congr1 (fun v => (nth ([::], None) v n).1) same.
rewrite !(nth_map 0%N) ?size_iota // nth_iota // add1n /result_at !public_home => /eq_in_map; apply.
by rewrite mem_enum.
Qed.

Section Cohort.
Variable c : cohort.

Lemma keeps s q d : within (members c) s -> (s q \in members d) = (q \in members d).
Proof.
move=> ws; have [qc|qc] := boolP (q \in members c); last by rewrite ws.
have sc : s q \in members c.
  by apply: contraTT qc => sq; have /perm_inj := ws _ sq; move=> e; rewrite e in sq.
by move: qc sc; rewrite !inE => /eqP -> /eqP ->.
Qed.

Lemma mirrored s w : within (members c) s -> public_of w = public_of real ->
  public_of (moved s w) = public_of w /\ forall p, bundle_of (moved s w) p = bundle_of w (s p).
Proof.
move=> ws same; have fw := same_home same.
have sp : perm_eq [seq s p | p <- people] people.
  apply: uniq_perm; rewrite ?(map_inj_uniq (@perm_inj _ s)) ?enum_uniq // => q.
  by rewrite mem_enum inE; apply/mapP; exists (s^-1 q)%g; rewrite ?mem_enum ?permKV.
have tr p : trails (moved s w) p = trails w (s p) by rewrite /trails ffunE.
have t e : (e <= steps)%N -> together s (at_end w e).
  move=> le p; have [pc|pc] := boolP (p \in members c); last by rewrite ws.
  apply: (@always_together _ _ _ _ _ _ _ _ _ _ _ _ steps e (s p) p c le); apply/eqP.
    by have := keeps p c ws; rewrite pc !inE -fw.
  by move: pc; rewrite inE -fw.
have [_ ag] := run_mirror sp tr t.
split=> [|p]; apply/eq_in_map => e; rewrite mem_iota add1n ltnS => /ag a; first exact: a_public a.
by rewrite (a_out a).
Qed.

Lemma perm_members s d : within (members c) s -> perm_eq [seq s q | q <- enum (members d)] (enum (members d)).
Proof.
move=> ws; apply: uniq_perm; rewrite ?(map_inj_uniq (@perm_inj _ s)) ?enum_uniq // => q.
rewrite mem_enum; apply/mapP/idP => [[r]|qd]; first by rewrite mem_enum => rd ->; rewrite keeps.
by exists (s^-1 q)%g; rewrite ?permKV // mem_enum -(keeps _ _ ws) permKV.
Qed.

Lemma possible w : published w != 0 ->
  public_of w = public_of real /\ forall d p, final real p = Some d ->
  perm_eq [seq bundle_of w q | q <- enum (members d)] [seq bundle_of real q | q <- enum (members d)].
Proof.
rewrite /published pnatr_eq0 eqb0 negbK => /andP[/eqP same /forallP each]; split=> // d p fp.
by have := each p; rewrite fp.
Qed.

Lemma published_swap s w : within (members c) s -> published w != 0 -> published (moved s w) = published w.
Proof.
move=> ws pw; have [same each] := possible pw; have [pub bun] := mirrored ws same.
rewrite /published pub same eqxx /=; congr (nat_of_bool _)%:R; apply: eq_forallb => p.
case fp: (final real p) => [d|] //; rewrite (each d p fp).
rewrite (eq_map bun) map_comp; apply: perm_trans (each d p fp).
exact: perm_map (perm_members d ws).
Qed.

(* The promise, of the model: whatever found and merge are, whoever sees all that is public, every bundle of every cohort
   whole, and has no reason to tell people of a cohort apart, thinks of each of its |members c| people the same. *)
Theorem promise (prior : world -> rat) p b :
  (forall s w, within (members c) s -> prior (moved s w) = prior w) -> p \in members c ->
  #|members c|%:R * weight prior published bundle_of p b =
  (count_mem b [seq bundle_of real q | q <- enum (members c)])%:R * evidence prior published.
Proof.
move=> ex pc; have fp : final real p = Some c by apply/eqP; move: pc; rewrite inE.
apply: (@one_in_k _ _ _ prior published bundle_of _ ex _ _ (fun b => count_mem b [seq bundle_of real q | q <- enum (members c)])) pc.
- exact: published_swap.
- by move=> s w q ws /possible[same _]; have [_ ->] := mirrored ws same.
- move=> w; rewrite /joint mulf_eq0 negb_or => /andP[_ /possible[_ each]] d.
  rewrite -(seq.permP (each c p fp)) count_map -size_filter.
  rewrite -(card_uniqP (filter_uniq _ (enum_uniq _))); apply: eq_card => q.
  by rewrite mem_filter mem_enum [LHS]inE andbC.
Qed.

(* Whoever also knows which bundle each of some people has is left those of the others. *)
Theorem promise_less_known (prior : world -> rat) p b (known : {set person}) :
  (forall s w, within (members c) s -> prior (moved s w) = prior w) -> p \in members c :\: known ->
  let told := release_known published bundle_of known (bundle_of real) in
  #|members c :\: known|%:R * weight prior told bundle_of p b =
  (count_mem b [seq bundle_of real q | q <- enum (members c :\: known)])%:R * evidence prior told.
Proof.
move=> ex pc told; have fp : final real p = Some c by apply/eqP; move: pc; rewrite !inE => /andP[].
have sw s w q : within (members c) s -> published w != 0 -> bundle_of (moved s w) q = bundle_of w (s q).
  by move=> ws /possible[same _]; have [_ ->] := mirrored ws same.
apply: (one_in_k_less_known ex published_swap sw (m := fun b => count_mem b _)) pc => w.
rewrite /joint mulf_eq0 negb_or => /andP[_]; rewrite /release_known; case: ifP => [kw|_]; last by rewrite eqxx.
move=> /possible[_ each] d; have := each c p fp; rewrite perm_sym.
have parts v : perm_eq [seq bundle_of v q | q <- enum (members c)]
    ([seq bundle_of v q | q <- enum (members c :&: known)] ++ [seq bundle_of v q | q <- enum (members c :\: known)]).
  rewrite -map_cat; apply: perm_map; apply: uniq_perm; rewrite ?enum_uniq //.
    rewrite cat_uniq !enum_uniq andbT /=; apply/hasPn => q; rewrite mem_enum inE => /andP[nk _].
    by apply: contra nk => /=; rewrite mem_enum inE => /andP[].
  by move=> q; rewrite mem_cat !mem_enum in_setI in_setD; case: (q \in known); rewrite /= ?andbT ?andbF ?orbF.
have known_same : [seq bundle_of w q | q <- enum (members c :&: known)] =
                  [seq bundle_of real q | q <- enum (members c :&: known)].
  apply/eq_in_map => q; rewrite mem_enum inE => /andP[_ qk]; exact/eqP/(forall_inP kw).
move=> same; have := perm_trans (perm_trans _ same) (parts w); move: (parts real); rewrite perm_sym => pr.
move=> /(_ _ pr); rewrite known_same perm_cat2l => left.
rewrite (seq.permP left) count_map -size_filter.
rewrite -(card_uniqP (filter_uniq _ (enum_uniq _))); apply: eq_card => q.
by rewrite mem_filter mem_enum [LHS]inE andbC.
Qed.

(* Whoever knows anything of what is out of p's rows, a day or a purchase, is left those bundles that fit. *)
Theorem promise_fitting (prior : world -> rat) p b (fits : pred _) :
  (forall s w, within (members c) s -> prior (moved s w) = prior w) -> p \in members c -> fits b ->
  let shown := [seq bundle_of real q | q <- enum (members c)] in b \in shown ->
  (count fits shown)%:R * weight prior published bundle_of p b =
  (count_mem b shown)%:R * mass prior published (fun w => fits (bundle_of w p)).
Proof.
move=> ex pc fb shown bs; have fp : final real p = Some c by apply/eqP; move: pc; rewrite inE.
have app : appears prior published bundle_of (members c) (fun b => count_mem b shown).
  move=> w; rewrite /joint mulf_eq0 negb_or => /andP[_ /possible[_ each]] d.
  rewrite -(seq.permP (each c p fp)) count_map -size_filter.
  rewrite -(card_uniqP (filter_uniq _ (enum_uniq _))); apply: eq_card => q.
  by rewrite mem_filter mem_enum [LHS]inE andbC.
have sw s w q : within (members c) s -> published w != 0 -> bundle_of (moved s w) q = bundle_of w (s q).
  by move=> ws /possible[same _]; have [_ ->] := mirrored ws same.
rewrite -(one_in_fitting ex published_swap sw app pc (undup_uniq shown) _ _ fb) ?mem_undup //; last first.
  move=> w; rewrite /joint mulf_eq0 negb_or => /andP[_ /possible[_ each]].
  by rewrite mem_undup -(perm_mem (each c p fp)) map_f // mem_enum.
by rewrite count_by_value.
Qed.

(* Where each person has a number on all its rows, drawn among the people of a cohort: whatever stands on the rows of a
   number, it is that of each of them with the same probability. *)
Theorem promise_numbered (prior : world -> rat) seen x p q :
  (forall s w, within (members c) s -> prior (moved s w) = prior w) -> p \in members c -> q \in members c ->
  weight_of prior published bundle_of (members c) seen x p = weight_of prior published bundle_of (members c) seen x q.
Proof.
move=> ex; apply: (number_of_anybody ex published_swap) => s w r ws /possible[same _].
by have [_ ->] := mirrored ws same.
Qed.

Theorem at_least_k p : founds_enough cohort_size found -> p \in members c -> (cohort_size <= #|members c|)%N.
Proof.
move=> enough; rewrite inE => /eqP fp.
have := cohort_floor enough _ fp; rewrite mem_enum => /(_ isT) le.
apply: leq_trans le _; rewrite -size_filter -(card_uniqP (filter_uniq _ (enum_uniq _))).
by apply/subset_leq_card/subsetP => q; rewrite mem_filter inE => /andP[].
Qed.

End Cohort.
End Release.
Print Assumptions promise.
Print Assumptions promise_less_known.
Print Assumptions promise_fitting.
Print Assumptions promise_numbered.
Print Assumptions at_least_k.
