"""First names that many people of Europe, America and Asia have: how names of people are told from other text."""

_TEXT = """
aaron abigail adam adrián agnieszka ahmed aisha alain alan albert alberto aldo alejandro aleksandra alena alessandro
alessia alexander alexei alexis ali alice amanda amber amit amy ana anastasia anders andrea andreas andrew andrzej
andré angela angelo anil anja ann anna anne anouk anthony antoine antonio antonín arjun arthur ashley astrid aurélie
ayşe barbara barbora beata beatriz ben benjamin bernard bernd betty beverly billy birgit bobby boris bradley brandon
brenda brian brigitte brittany bruce bruno bryan camila camille carl carlo carlos carmela carmen carol carolyn
catarina caterina catherine charles cheryl chiara chloé christian christiane christina christine christophe
christopher clara claudia cornelis cristina crystal cynthia céline daan daniel danielle danuta dariusz david davide
deborah debra deepak denise dennis diana diane diego dieter dirk dmitri dolores domenico donald donna doris dorota
dorothy douglas dylan edward ekaterina elena elias elif elijah elisa elizabeth eliška elsa elżbieta emily emma emre
enrique eric erik erika erin ethan eugene eva evelyn ewa fatima fatma federica felix femke fernando filip finn
florian frances francesca francesco francisca francisco franco frank františek françois françoise frieda gabriel
gabriele gary george gerald gerhard gerrit giorgia giorgio giovanna giovanni gisela giulia giuseppe gloria gonçalo
grace grażyna gregory greta grzegorz guillaume gérard günter halina hana hanna hannah hanne hans harold harry haruto
hassan heather heike heinz helen helena helga helmut hendrik henry henryk hiroshi holly horst hugo hussein hélène
ibrahim igor ingrid inès inês irena irene irina isabel isabella isabelle ivan ivana jacek jack jacob jacobus
jacqueline jacques jadwiga jakub james jamie jan jana janet janice janina janusz jaroslav jaroslava jarosław jason
javier jean jeanne jeffrey jenna jennifer jens jeremy jeroen jerry jerzy jesse jessica jesús jill jitka jiří joan
joanna joe johan johanna johannes john jonas jonathan jordan jorge jose josef josefa joseph joshua josé joyce joão
juan judith judy julia julie julien juliette justin józef jürgen kamil karel karen karin karl katarzyna kateřina
katherine kathleen kathryn katrin kayla kazimierz keith kelly kenneth kerstin kevin khadija kimberly kirsten klaus
kristen kristin kristina kristýna krystyna krzysztof kyle ladislav lara larry lars laura lauren laurent lawrence lea
lena lenka leon leonie leslie linda linnea lisa logan lorenzo lori lotte louis luc luca lucia lucie lucía ludmila
luigi luis lukas lukáš luís léo maarten maciej magdalena maja manfred manon manuel marcel marcin marco marek
margaret maria mariana marie marilyn mario mariusz mark markus markéta marta martha martin martina martine mary
mason mateusz mathieu matteo matthew matthias matěj małgorzata megan mehmet melanie melissa mercedes mette mia
michael michaela michal michał michel michele michelle miguel milan miroslav mirosław misty mohamed monica monika
monique moritz muhammad mustafa nancy natalia natalie nathalie nathan neha nicholas nicolas nicole niels niklas
nikolai nils noah ole oleg olga oliver olivia olivier olof omar ondřej oscar pablo pamela paolo patricia patrick
paul paula pavel paweł pedro peter petr petra philip philippe pierre pieter pietro pilar piotr pooja priya rachel
radek rafael rafał rahul rainer ralf ralph randy raquel ravi raymond raúl rebecca renate rené richard robert rocío
roger roman ronald rosa rosario roy rui russell ruth ryan ryszard sabine sakura salvatore samantha samuel sander
sandra sanjay sanne sara sarah scott sean sebastian sergei sergio sharon shirley silke silvia simone sofía sophia
sophie stanislav stanisław stefan stefanie stephanie stephen steven sunita susan susanne suzanne sven svetlana
sylvie søren sławomir tadeusz takashi tammy tanja tatiana teresa tereza terry theresa thomas tiago tiffany tim
timothy tina tobias tomasz tomáš torsten tracy tyler ulrich ursula uwe valentina valérie veronika victoria vijay
vincent vincenzo vladimir vladimír vojtěch václav věra walter wayne werner wiesław willem william willie wojciech
wolfgang yuki yuri zachary zainab zbigniew zdeněk zdeňka zeynep zofia zuzana álvaro ángel łukasz
"""
FIRST_NAMES = frozenset(_TEXT.split())
"""Lower case. Names that are towns, months or common words, too, are left out: they would be no evidence."""
